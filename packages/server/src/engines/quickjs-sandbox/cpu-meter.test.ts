import { describe, expect, it } from "vitest";
import { CpuMeter, nothingSpent } from "./cpu-meter.ts";
import { openCpuOf, openOwnCpu, ownThreadNumber } from "./thread-cpu.ts";

describe("the meter", () => {
  it("counts CPU time, however long others had the processor meanwhile", () => {
    let cpuMs = 1_000;
    let wallMs = 0;
    const meter = new CpuMeter(() => cpuMs);
    meter.wake(wallMs);
    const spending = nothingSpent();
    meter.switchTo(spending, 100, wallMs);
    // One millisecond of ten is ours; and once the machine stands still for a minute.
    for (let n = 0; n < 90; n += 1) {
      cpuMs += 1;
      wallMs += n === 50 ? 60_000 : 10;
      expect(meter.settle(wallMs)).toBe(false);
    }
    expect(spending.cpuMs).toBeCloseTo(90, 5);
    for (let n = 0; n < 9; n += 1) {
      cpuMs += 1;
      wallMs += 10;
      expect(meter.settle(wallMs)).toBe(false);
    }
    cpuMs += 2;
    expect(meter.settle(wallMs + 10)).toBe(true);
  });

  it("does not let go what is told in steps, a little late", () => {
    let wallMs = 0;
    const meter = new CpuMeter(() => Math.floor(wallMs / 25) * 25);
    meter.wake(wallMs);
    const spending = nothingSpent();
    meter.switchTo(spending, 100, wallMs);
    while (!meter.settle(wallMs)) wallMs += 0.5;
    expect(wallMs).toBeGreaterThan(100);
    expect(wallMs).toBeLessThan(160);
  });

  it("counts long steps little where no CPU time is told, but not without end", () => {
    const meter = new CpuMeter(null);
    meter.wake(0);
    meter.switchTo(nothingSpent(), 100, 0);
    expect(meter.settle(1_000)).toBe(false);
    expect(meter.settle(1_900)).toBe(false);
    expect(meter.settle(2_100)).toBe(true);
  });
});

it.runIf(process.platform === "linux")("tells the CPU time of threads", () => {
  const own = openOwnCpu();
  const same = openCpuOf(ownThreadNumber());
  if (own === null || same === null) throw new Error("told nothing");
  const beforeMs = own();
  const until = performance.now() + 5_000;
  let looks = 0;
  while (own() - beforeMs < 30 && performance.now() < until) looks += 1;
  expect(looks).toBeGreaterThan(0);
  expect(own() - beforeMs).toBeGreaterThanOrEqual(30);
  expect(Math.abs(same() - own())).toBeLessThan(500);
  expect(openCpuOf(0)).toBeNull();
});

import { describe, expect, test } from "vitest";
import { readFormFiles, readManagementForm } from "./read-form.ts";

const TYPE = "multipart/form-data; boundary=b";
const formOf = (headers: string) => Buffer.from(`--b\r\n${headers}\r\n\r\n1\r\n--b--\r\n`);
const DISPOSITION = 'Content-Disposition: form-data; name="a"; filename="a.txt"';

test("[AC-73] what stands between the parts of a form has 70 characters at most, and is no form beyond", () => {
  const form = (boundary: string) =>
    readManagementForm(
      Buffer.from(`--${boundary}\r\n${DISPOSITION}\r\n\r\n1\r\n--${boundary}--\r\n`),
      `multipart/form-data; boundary="${boundary}"`,
    );
  expect(form("b".repeat(70))).toEqual(new Map([["a", Buffer.from("1")]]));
  expect(form("b".repeat(71))).toBeUndefined();
});

describe("the headers of a part", () => {
  test("[AC-59] are read by line, in any case and with blanks around", () => {
    const file = (headers: string) => readFormFiles(formOf(headers), TYPE).get("a");
    expect(file(`${DISPOSITION}\r\nCONTENT-TYPE:  text/csv; x=1 \t`)).toEqual({
      ...{ fileName: "a.txt", contentType: "text/csv; x=1", bytes: Buffer.from("1") },
    });
    for (const more of ["", "\r\nContent-Type:", "\r\nno header", "\r\n:"]) {
      expect(file(DISPOSITION + more)?.contentType).toBe("application/octet-stream");
    }
    expect(file(`X: name="b"\r\n${DISPOSITION}`)?.fileName).toBe("a.txt");
  });

  test("[AC-59] that are long make a form that cannot be read", () => {
    const long = formOf(`${DISPOSITION}\r\nContent-Type: a${" ".repeat(20_000)}b`);
    expect(() => readFormFiles(long, TYPE)).toThrow("headers");
    expect(() => readManagementForm(long, TYPE)).toThrow("headers");
    const type = `a${" ".repeat(15_000)}b`;
    const files = readFormFiles(formOf(`${DISPOSITION}\r\nContent-Type: ${type}`), TYPE);
    expect(files.get("a")?.contentType).toBe(type);
  });
});

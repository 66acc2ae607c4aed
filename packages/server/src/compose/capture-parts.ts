import { createCaptureBodies } from "../events/capture-bodies.ts";
import { journalCaptures, tellCaptures } from "../events/ingestion-journal.ts";
import { countCaptures } from "../events/ingestion-metrics.ts";
import { createRecentEvents } from "../events/recent-events.ts";
import { rememberUnstored } from "../events/remember-unstored.ts";
import { createBodyOpener } from "../http/body-opener.ts";
import { createLargeBodies } from "../http/large-bodies.ts";
import type { Base } from "./base.ts";
import type { Foundations } from "./foundations.ts";
import type { Ingestion } from "./ingestion.ts";

export type CaptureParts = Awaited<ReturnType<typeof composeCapture>>;

/** What takes captured events, and bodies of any size. */
export async function composeCapture(
  { config, metrics, clock, newUuid, onClose }: Base,
  { projects, events }: Foundations,
  { log, append, warnings, refusals }: Ingestion,
) {
  const recentEvents = createRecentEvents();
  await rememberUnstored({ log, events, recent: recentEvents });
  const bodyOpener = createBodyOpener();
  onClose(() => bodyOpener.close());
  const largeBodies = createLargeBodies({ opener: bodyOpener });
  const captureDeps = {
    projects,
    append,
    events,
    recent: recentEvents,
    trustedProxies: config.trustedProxies,
    bodies: createCaptureBodies(largeBodies),
    clock,
    newUuid,
    observer: tellCaptures(countCaptures(metrics), journalCaptures({ warnings, refusals })),
  };
  return { largeBodies, captureDeps };
}

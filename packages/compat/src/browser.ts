import { existsSync } from "node:fs";
import { type Browser, chromium, type Page } from "playwright-core";

const CHROMIUM_PATH = process.env.CHROMIUM_PATH ?? "/usr/bin/chromium";

/** Why page tests cannot run here; `null` when they can. */
export const WHY_NO_BROWSER = existsSync(CHROMIUM_PATH)
  ? null
  : `no Chromium at ${CHROMIUM_PATH}; set CHROMIUM_PATH`;

/** Starts Chromium without a window and without traffic of its own. */
export function launchBrowser(): Promise<Browser> {
  return chromium.launch({
    executablePath: CHROMIUM_PATH,
    args: [
      "--headless",
      "--no-sandbox",
      "--disable-gpu",
      "--disable-quic",
      "--no-first-run",
      "--disable-background-networking",
      "--disable-component-update",
      "--disable-sync",
    ],
  });
}

/** A request of a page to the product. */
export interface Exchange {
  readonly method: string;
  readonly url: URL;
  readonly status: number;
  readonly requestHeaders: Readonly<Record<string, string>>;
  readonly body: Buffer | null;
}

/** A page with a record of what went wrong on it and of what it asked the product. */
export interface WatchedPage {
  readonly page: Page;
  /** Errors on the console, uncaught exceptions, failed requests and refusals, in order. */
  readonly problems: readonly string[];
  readonly exchanges: readonly Exchange[];
}

/** Watches a page from now on; `api` is the address of the product. */
export function watch(page: Page, api: string): WatchedPage {
  const problems: string[] = [];
  const exchanges: Exchange[] = [];
  page.on("console", (message) => {
    if (message.type() === "error") problems.push(`console: ${message.text()}`);
  });
  page.on("pageerror", (error) => problems.push(`uncaught: ${error.message}`));
  page.on("requestfailed", (request) => {
    // Leaving a page cancels what it was still reading.
    if (request.failure()?.errorText === "net::ERR_ABORTED") return;
    problems.push(`${request.method()} ${request.url()}: ${request.failure()?.errorText}`);
  });
  page.on("response", (response) => {
    const request = response.request();
    if (!response.url().startsWith(api)) return;
    exchanges.push({
      method: request.method(),
      url: new URL(response.url()),
      status: response.status(),
      requestHeaders: request.headers(),
      body: request.postDataBuffer(),
    });
    if (response.status() >= 400) {
      problems.push(`${request.method()} ${response.url()}: ${response.status()}`);
    }
  });
  return { page, problems, exchanges };
}

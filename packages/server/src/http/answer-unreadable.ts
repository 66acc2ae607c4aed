import { STATUS_CODES } from "node:http";
import type { Socket } from "node:net";
import { JSON_TYPE, Refusal, refused } from "./errors.ts";

/**
 * Answers what is no request of HTTP, comes too slowly, or has too large a head, with the four-field
 * body and the end of the connection: nobody knows where the next request on it would begin.
 */
export function answerUnreadable(error: Error & { readonly code?: string }, socket: Socket): void {
  if (error.code === "ECONNRESET" || socket.destroyed || !socket.writable) {
    socket.destroy();
    return;
  }
  const { status, text } = refused(refusalOf(error.code));
  const head = [
    `HTTP/1.1 ${status} ${STATUS_CODES[status]}`,
    `content-type: ${JSON_TYPE}`,
    `content-length: ${Buffer.byteLength(text)}`,
    "access-control-allow-origin: *",
    "connection: close",
  ];
  socket.end(`${head.join("\r\n")}\r\n\r\n${text}`, () => socket.destroy());
}

function refusalOf(code: string | undefined): Refusal {
  switch (code) {
    case "ERR_HTTP_REQUEST_TIMEOUT":
      return new Refusal("request_timeout", "The request took too long to arrive.");
    case "HPE_HEADER_OVERFLOW":
      return new Refusal("header_too_large", "The headers of the request are too large.");
    default:
      return new Refusal("parse_error", "Malformed request: this is not HTTP.");
  }
}

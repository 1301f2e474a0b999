// The frame's end of the messages between the shell and a frame. A frame has an opaque origin, so it cannot
// name the shell's; it listens to its parent only.
export function fromShell(handle: (message: any) => void): void {
  window.addEventListener("message", (event) => {
    if (event.source === window.parent && event.data && typeof event.data === "object") handle(event.data);
  });
}

export function toShell(message: object, transfer: Transferable[] = []): void {
  window.parent.postMessage(message, "*", transfer);
}

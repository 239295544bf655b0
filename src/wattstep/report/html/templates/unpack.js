"use strict";
// Reads what the page keeps deflated, in base64 (report/html/page.py `packed` writes it), in pieces,
// so that the page answers meanwhile.
const unpack = (() => {
  const PIECE = 1 << 18; // characters of base64; four of them are three bytes

  // By a message, not by a timer: while "load" is put off, a browser whose time is virtual
  // (--virtual-time-budget, for screenshots) lets no timer go on.
  const pause = () => new Promise((resolve) => {
    const { port1, port2 } = new MessageChannel();
    port1.onmessage = () => { port1.close(); resolve(); };
    port2.postMessage(null);
  });

  // What is there has been painted, or nothing is painted: a browser whose time is virtual waits for "load".
  const PATIENCE = 1000; // pauses
  async function painted() {
    let frame = false;
    requestAnimationFrame(() => setTimeout(() => { frame = true; }));
    for (let n = 0; n < PATIENCE && !frame; n += 1) await pause();
  }

  function bytesOf(text) {
    const raw = atob(text);
    const bytes = new Uint8Array(raw.length);
    for (let i = 0; i < raw.length; i += 1) bytes[i] = raw.charCodeAt(i);
    return bytes;
  }

  async function feed(text, writer) {
    for (let at = 0; at < text.length; at += PIECE) {
      await writer.write(bytesOf(text.slice(at, at + PIECE)));
      await pause();
    }
    await writer.close();
  }

  async function bytes(packed) {
    const stream = new DecompressionStream("deflate");
    const feeding = feed(packed, stream.writable.getWriter());
    const pieces = [];
    const reader = stream.readable.getReader();
    for (let one = await reader.read(); !one.done; one = await reader.read()) pieces.push(one.value);
    await feeding;
    const whole = new Uint8Array(pieces.reduce((sum, piece) => sum + piece.length, 0));
    let at = 0;
    for (const piece of pieces) {
      whole.set(piece, at);
      at += piece.length;
    }
    return whole;
  }

  const text = async (packed) => new TextDecoder().decode(await bytes(packed));

  // Puts off the page's event "load" until the work is done: what prints a page as soon as it is
  // loaded, such as a browser without a window, finds all of it. An open document holds it up, where
  // there is one: in a sandbox (`wattstep serve`) frames are another's, and nothing prints by itself.
  async function beforeLoad(work) {
    const frame = document.createElement("iframe");
    frame.hidden = true;
    document.body.append(frame);
    const opened = frame.contentDocument;
    opened?.open();
    try {
      await work();
    } finally {
      opened?.close();
      frame.remove();
    }
  }

  return { beforeLoad, bytes, painted, pause, text };
})();

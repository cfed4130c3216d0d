"use strict";
// Asking the service: one place for the key, for problems, and for a service that does not answer.
const tastespace = {};

(() => {
  const KEY = "tastespace-key";
  const PATIENCE = 40_000; // milliseconds: the service gives a request up after 30 seconds, unless told otherwise

  class Trouble extends Error {
    constructor(message, status) {
      super(message);
      this.status = status;
    }
  }

  // What a browser keeps; where it must keep nothing, this page remembers.
  const memory = {};
  const store = (kind) => ({
    get(name) {
      try {
        return window[kind].getItem(name);
      } catch {
        return memory[name] ?? null;
      }
    },
    set(name, text) {
      memory[name] = text;
      try {
        window[kind].setItem(name, text);
      } catch {
        // It is remembered as long as the page is open.
      }
    },
    remove(name) {
      delete memory[name];
      try {
        window[kind].removeItem(name);
      } catch {
        // It was never there.
      }
    },
  });
  const local = store("localStorage");
  const session = store("sessionStorage");

  const key = {
    get: () => session.get(KEY) || "",
    set: (text) => (text ? session.set(KEY, text) : session.remove(KEY)),
  };

  async function send(path, { method = "GET", body, signal } = {}) {
    const headers = { Accept: "application/json" };
    if (key.get()) headers.Authorization = `Bearer ${key.get()}`;
    if (body !== undefined) headers["Content-Type"] = "application/json";
    const limit = AbortSignal.timeout(PATIENCE);
    try {
      return await fetch(path, { method, headers, signal: signal ? AbortSignal.any([signal, limit]) : limit, body: body === undefined ? undefined : JSON.stringify(body) });
    } catch (error) {
      if (error.name === "AbortError") throw error;
      throw new Trouble("The service does not answer. Is it still running? Nothing was lost: try again.", 0);
    }
  }

  // The answer as an object. What is being made (202) is waited for, as long as `patience` says.
  async function ask(path, options = {}) {
    const until = Date.now() + (options.patience || 0);
    for (;;) {
      const response = await send(`v1/${path}`, options);
      let content = null;
      try {
        content = await response.json();
      } catch (error) {
        if (error.name === "AbortError") throw error;
        throw new Trouble(`The service answered something that cannot be read (status ${response.status}).`, response.status);
      }
      if (response.status === 202 && Date.now() < until) {
        if (options.waiting) options.waiting();
        await new Promise((resolve) => setTimeout(resolve, 1000));
        continue;
      }
      if (response.status === 202) throw new Trouble("This takes longer than expected. Try again in a while.", 202);
      if (!response.ok) throw new Trouble(told(content, response.status), response.status);
      return content;
    }
  }

  const told = (problem, status) => problem?.detail || `The service refused (status ${status}).`;

  const path = (...parts) => parts.map(encodeURIComponent).join("/");

  Object.assign(tastespace, { ask, path, key, local, Trouble });
})();

"use strict";
// Requests to the service: the one place for the key, for problems, and for a service that does not answer.
const tastespace = {};

(() => {
  const KEY = "tastespace-key";
  const MAX_WAIT = 40_000; // milliseconds: the request timeout of the service is 30 seconds by default

  class Trouble extends Error {
    constructor(message, status) {
      super(message);
      this.status = status;
    }
  }

  // Storage of the browser; where that is blocked, values are kept as long as the page is open.
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
        // It is kept as long as the page is open.
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
    const limit = AbortSignal.timeout(MAX_WAIT);
    try {
      return await fetch(path, { method, headers, signal: signal ? AbortSignal.any([signal, limit]) : limit, body: body === undefined ? undefined : JSON.stringify(body) });
    } catch (error) {
      if (error.name === "AbortError") throw error;
      throw new Trouble("The service does not answer. Is it still running? Nothing was lost: try again.", 0);
    }
  }

  // The response as an object. A result that is being made (202) is waited for, for `patience` milliseconds.
  async function ask(path, options = {}) {
    const until = Date.now() + (options.patience || 0);
    for (;;) {
      const response = await send(`v1/${path}`, options);
      let content = null;
      try {
        content = await response.json();
      } catch (error) {
        if (error.name === "AbortError") throw error;
        throw new Trouble(`The response of the service cannot be read (status ${response.status}).`, response.status);
      }
      if (response.status === 202 && Date.now() < until) {
        if (options.waiting) options.waiting();
        await new Promise((resolve) => setTimeout(resolve, 1000));
        continue;
      }
      if (response.status === 202) throw new Trouble("This takes longer than expected. Try again in a while.", 202);
      if (!response.ok) throw new Trouble(detailOf(content, response.status), response.status);
      return content;
    }
  }

  const detailOf = (problem, status) => problem?.detail || `The service refused (status ${status}).`;

  // Descriptions of the model that answers; requested once, and again after an error.
  const kept = {};
  const asked = (what) => () => {
    kept[what] = kept[what] || ask(`model/${what}`).catch((error) => {
      delete kept[what];
      throw error;
    });
    return kept[what];
  };
  const story = { outline: asked("outline"), whole: asked("story"), forget: () => Object.keys(kept).forEach((what) => delete kept[what]) };

  const path = (...parts) => parts.map(encodeURIComponent).join("/");

  Object.assign(tastespace, { ask, path, key, local, Trouble, story, views: {} });
})();

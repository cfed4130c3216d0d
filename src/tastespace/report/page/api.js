"use strict";
// Asking the service: one place for the key, for problems, and for a service that does not answer.
const tastespace = {};

(() => {
  const KEY = "tastespace-key";

  class Trouble extends Error {
    constructor(message, status) {
      super(message);
      this.status = status;
    }
  }

  const key = {
    get: () => sessionStorage.getItem(KEY) || "",
    set: (text) => (text ? sessionStorage.setItem(KEY, text) : sessionStorage.removeItem(KEY)),
  };

  async function send(path, { method = "GET", body, signal } = {}) {
    const headers = { Accept: "application/json" };
    if (key.get()) headers.Authorization = `Bearer ${key.get()}`;
    if (body !== undefined) headers["Content-Type"] = "application/json";
    try {
      return await fetch(path, { method, headers, signal, body: body === undefined ? undefined : JSON.stringify(body) });
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

  function told(problem, status) {
    const detail = problem && problem.detail ? problem.detail : `The service refused (status ${status}).`;
    const errors = (problem && problem.errors) || [];
    const parts = errors.map((error) => [error.where, error.message].filter(Boolean).join(": "));
    return parts.length ? `${detail} (${parts.join("; ")})` : detail;
  }

  const path = (...parts) => parts.map(encodeURIComponent).join("/");

  Object.assign(tastespace, { ask, path, key, Trouble });
})();

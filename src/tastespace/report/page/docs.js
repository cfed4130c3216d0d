"use strict";
// The routes of the service, from its own description: openapi.json.
(() => {
  const { make, table } = tastespace;
  const main = document.getElementById("main");
  const SHOWN = ["get", "post", "put", "patch", "delete"];

  function show(document_) {
    const resolve = (schema) => (schema?.$ref ? schema.$ref.split("/").slice(1).reduce((at, name) => at[name], document_) : schema || {});
    // What a value is, in a few words.
    const kindOf = (schema) => {
      if (!schema) return "any";
      if (schema.$ref) return schema.$ref.split("/").pop();
      const either = schema.anyOf || schema.oneOf;
      if (either) return either.map(kindOf).join(" or ");
      if (schema.enum) return schema.enum.map((one) => JSON.stringify(one)).join(" or ");
      if (schema.type === "array") return `list of ${kindOf(schema.items)}`;
      if (schema.const !== undefined) return JSON.stringify(schema.const);
      return schema.format ? `${schema.type} (${schema.format})` : schema.type || "any";
    };
    const noteOf = (schema) => [schema.description, schema.default !== undefined && schema.default !== null ? `Default: ${JSON.stringify(schema.default)}.` : ""].filter(Boolean).join(" ");
    const fields = (caption, schema) => {
      const whole = resolve(schema);
      const rows = Object.entries(whole.properties || {}).map(([name, one]) => [name + ((whole.required || []).includes(name) ? " *" : ""), kindOf(one), noteOf(one)]);
      return rows.length ? table(caption, ["field", "type", "meaning"], rows, { texts: [1, 2] }) : make("p", { class: "quiet small", text: `${caption}: ${kindOf(schema)}` });
    };
    const groups = new Map();
    for (const [path, methods] of Object.entries(document_.paths)) {
      for (const method of SHOWN.filter((name) => methods[name])) {
        const tag = (methods[method].tags || ["service"]).slice(-1)[0];
        groups.set(tag, [...(groups.get(tag) || []), [method, path, methods[method]]]);
      }
    }
    const routeOf = ([method, path, one]) => {
      const name = `${method.toUpperCase()} ${path}`;
      const details = make("details", { class: "route" }, make("summary", {}, make("b", { text: name }), ` ${(one.description || "").split("\n")[0]}`));
      details.addEventListener("toggle", () => {
        if (details.children.length > 1) return;
        const body = one.requestBody?.content?.["application/json"]?.schema;
        const [status, answer] = Object.entries(one.responses).find(([code]) => code.startsWith("2")) || [];
        details.append(...[
          one.parameters?.length ? table(`Parameters of ${name}`, ["parameter", "in", "type", "meaning"], one.parameters.map((each) => [each.name + (each.required ? " *" : ""), each.in, kindOf(each.schema), each.description || noteOf(each.schema || {})]), { texts: [1, 2, 3] }) : null,
          body ? fields(`Request of ${name}`, body) : null,
          status && answer.content?.["application/json"] ? fields(`Response ${status} of ${name}`, answer.content["application/json"].schema) : null,
        ].filter(Boolean));
      });
      return details;
    };
    main.replaceChildren(
      make("h1", { text: `${document_.info.title} ${document_.info.version}` }),
      make("p", { class: "quiet" }, `${document_.info.summary || ""} Everything below is in `, make("a", { href: "openapi.json", text: "openapi.json" }), ". Required is what has a star."),
      ...[...groups].map(([tag, routes]) => make("section", { class: "panel routes", "aria-label": tag }, make("h2", { text: tag }), routes.map(routeOf))));
  }

  fetch("openapi.json").then((answer) => answer.json()).then(show).catch((error) => main.replaceChildren(make("p", { class: "note", role: "alert", text: `The description cannot be read: ${error.message}` })));
})();

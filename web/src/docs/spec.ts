// The part of /openapi.json that the forms need.
export interface Schema {
  $ref?: string;
  type?: string | string[];
  enum?: unknown[];
  anyOf?: Schema[];
  items?: Schema;
  properties?: Record<string, Schema>;
  required?: string[];
  examples?: unknown[];
  description?: string;
}

export interface Parameter {
  name: string;
  in: "path" | "query" | "header";
  required: boolean;
  description?: string;
  schema: Schema;
}

export interface Operation {
  operationId: string;
  parameters: Parameter[];
  requestBody?: { content: Record<string, { schema?: Schema }> };
  responses: Record<string, { content?: Record<string, unknown> }>;
  security?: unknown[];
}

export interface Spec {
  paths: Record<string, Record<string, Operation>>;
  components: { schemas: Record<string, Schema> };
}

let loaded: Promise<Spec> | null = null;

/** Fetched once, when the first form is opened. */
export function loadSpec(): Promise<Spec> {
  loaded ??= fetch("/openapi.json", { credentials: "omit" }).then((reply) => {
    if (!reply.ok) throw new Error(`openapi.json cannot be read: status ${reply.status}`);
    return reply.json() as Promise<Spec>;
  });
  loaded.catch(() => (loaded = null));
  return loaded;
}

function resolve(spec: Spec, schema: Schema | undefined): Schema {
  const name = schema?.$ref?.split("/").pop();
  return (name ? spec.components.schemas[name] : schema) ?? {};
}

/** Something of that type, for people to replace. */
function sample(spec: Spec, schema: Schema, depth: number): unknown {
  if (schema.examples?.length) return schema.examples[0];
  if (schema.enum?.length) return schema.enum[0];
  if (schema.$ref) return depth > 2 ? {} : exampleOf(spec, schema, false, depth + 1);
  const type = Array.isArray(schema.type) ? schema.type[0] : schema.type;
  if (type === "array") return [];
  if (type === "object") return {};
  if (type === "integer" || type === "number") return 1;
  return type === "boolean" ? false : "";
}

/** A body with what is required. If nothing is: a change has what has an example, anything else is empty. */
export function exampleOf(spec: Spec, schema: Schema | undefined, isChange: boolean, depth = 0): Record<string, unknown> {
  const full = resolve(spec, schema);
  const body: Record<string, unknown> = {};
  for (const [name, field] of Object.entries(full.properties ?? {}))
    if (full.required ? full.required.includes(name) : isChange && field.examples?.length) body[name] = sample(spec, field, depth);
  return body;
}

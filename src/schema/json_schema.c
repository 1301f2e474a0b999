/*
 * Tables of fields as JSON Schema, for /openapi.json and for the tools of MCP.
 *
 * OpenAPI has every schema once and refers to it by name. A tool's schema must be self-contained,
 * so the schemas of members are inlined there.
 */
#include "schema/fields.h"

#include "base/banned.h"

enum form { BY_NAME, WRITTEN_OUT };

static json_t *object_schema(const struct schema *schema, enum form form);

static json_t *member_schema(const struct schema *schema, enum form form)
{
    return form == BY_NAME ? json_pack("{s:s+}", "$ref", "#/components/schemas/", schema->name)
                           : object_schema(schema, form);
}

static json_t *type_schema(const struct field *field, enum form form)
{
    switch (field->type) {
    case FIELD_TEXT:
    case FIELD_CHOICE:
        return json_pack("{s:s}", "type", "string");
    case FIELD_BOOL:
        return json_pack("{s:s}", "type", "boolean");
    case FIELD_INT:
        return json_pack("{s:s}", "type", "integer");
    case FIELD_SECONDS:
    case FIELD_NUMBER:
        return json_pack("{s:s}", "type", "number");
    case FIELD_SIZE:
        return json_pack("{s:[s,s]}", "type", "integer", "string");
    case FIELD_OBJECT:
        return field->of ? member_schema(field->of, form) : json_pack("{s:s}", "type", "object");
    case FIELD_MAP:
        return json_pack("{s:s,s:{s:s}}", "type", "object", "additionalProperties", "type",
                         "string");
    case FIELD_LIST:
        return json_pack("{s:s,s:o}", "type", "array", "items",
                         field->of ? member_schema(field->of, form)
                                   : json_pack("{s:s}", "type", "string"));
    case FIELD_ROWS:
        return json_pack("{s:s,s:{s:s,s:{}}}", "type", "array", "items", "type", "array", "items");
    case FIELD_ANY:
        break;
    }
    return json_object();
}

static void add_bounds(const struct field *field, json_t *json)
{
    bool text = field->type == FIELD_TEXT, list = field->type == FIELD_LIST;

    if (field->max == 0 && field->min == 0)
        return;
    if (text || list) {
        if (field->min > 0)
            (void) json_object_set_new(json, text ? "minLength" : "minItems",
                                       json_integer(field->min));
        if (field->max > 0)
            (void) json_object_set_new(json, text ? "maxLength" : "maxItems",
                                       json_integer(field->max));
    } else if (field->type == FIELD_INT || field->type == FIELD_SIZE) {
        (void) json_object_set_new(json, "minimum", json_integer(field->min));
        if (field->max < INT64_MAX)
            (void) json_object_set_new(json, "maximum", json_integer(field->max));
    } else if (field->type == FIELD_SECONDS) {
        if (field->min == FIELD_ABOVE_ZERO)
            (void) json_object_set_new(json, "exclusiveMinimum", json_integer(0));
        else
            (void) json_object_set_new(json, "minimum", json_real((double) field->min / 1e6));
        (void) json_object_set_new(json, "maximum", json_real((double) field->max / 1e6));
    }
}

/* Takes @json. Not every MCP client understands anyOf, so a list of types is used where that is
 * enough. */
static json_t *nullable(const struct field *field, enum form form, json_t *json)
{
    json_t *type = json_object_get(json, "type");

    if (form == WRITTEN_OUT && json_is_string(type) && !field->choices) {
        (void) json_object_set_new(json, "type", json_pack("[O,s]", type, "null"));
        return json;
    }
    return json_pack("{s:[o,{s:s}]}", "anyOf", json, "type", "null");
}

static json_t *field_schema(const struct field *field, enum form form)
{
    json_t *json = type_schema(field, form), *choices;

    if (!json)
        return NULL;
    add_bounds(field, json);
    if (field->choices) {
        choices = json_array();
        for (size_t i = 0; field->choices[i]; i++)
            (void) json_array_append_new(choices, json_string(field->choices[i]));
        (void) json_object_set_new(json, "enum", choices);
    }
    if (field->flags & FIELD_NULLABLE)
        json = nullable(field, form, json);
    if (field->help)
        (void) json_object_set_new(json, "description", json_string(field->help));
    if (field->example)
        (void) json_object_set_new(
            json, "examples", json_pack("[o]", json_loads(field->example, JSON_DECODE_ANY, NULL)));
    return json;
}

static json_t *object_schema(const struct schema *schema, enum form form)
{
    json_t *properties = json_object(), *required = json_array();
    json_t *json = json_pack("{s:s,s:o}", "type", "object", "properties", properties);

    for (const struct field *field = schema->fields; field->name; field++) {
        (void) json_object_set_new(properties, field->name, field_schema(field, form));
        if (field->flags & FIELD_REQUIRED)
            (void) json_array_append_new(required, json_string(field->name));
    }
    if (schema->help)
        (void) json_object_set_new(json, "description", json_string(schema->help));
    if (json_array_size(required) > 0)
        (void) json_object_set(json, "required", required);
    json_decref(required);
    return json;
}

json_t *field_to_schema(const struct field *field)
{
    return field_schema(field, BY_NAME);
}

json_t *fields_to_schema(const struct schema *schema)
{
    return object_schema(schema, BY_NAME);
}

json_t *fields_to_whole_schema(const struct schema *schema, bool closed)
{
    json_t *json = object_schema(schema, WRITTEN_OUT);

    if (json && closed)
        (void) json_object_set_new(json, "additionalProperties", json_false());
    return json;
}

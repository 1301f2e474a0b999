/* Tables of fields as JSON Schema, for /openapi.json and for the tools of MCP. */
#include <stdio.h>
#include <string.h>

#include "schema/fields.h"

#include "base/banned.h"

static json_t *reference(const struct schema *schema)
{
    return json_pack("{s:s+}", "$ref", "#/components/schemas/", schema->name);
}

static json_t *type_schema(const struct field *field)
{
    switch (field->type) {
    case FIELD_TEXT:
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
    case FIELD_CHOICE:
        return json_pack("{s:s}", "type", "string");
    case FIELD_OBJECT:
        return field->of ? reference(field->of) : json_pack("{s:s}", "type", "object");
    case FIELD_MAP:
        return json_pack("{s:s,s:{s:s}}", "type", "object", "additionalProperties", "type",
                         "string");
    case FIELD_LIST:
        return json_pack("{s:s,s:o}", "type", "array", "items",
                         field->of ? reference(field->of) : json_pack("{s:s}", "type", "string"));
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
        (void) json_object_set_new(json, "maximum", json_integer(field->max));
    } else if (field->type == FIELD_SECONDS) {
        (void) json_object_set_new(json, "minimum", json_real((double) field->min / 1e6));
        (void) json_object_set_new(json, "maximum", json_real((double) field->max / 1e6));
    }
}

json_t *field_to_schema(const struct field *field)
{
    json_t *json = type_schema(field), *choices;

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
        json = json_pack("{s:[o,{s:s}]}", "anyOf", json, "type", "null");
    if (field->help)
        (void) json_object_set_new(json, "description", json_string(field->help));
    if (field->example)
        (void) json_object_set_new(
            json, "examples", json_pack("[o]", json_loads(field->example, JSON_DECODE_ANY, NULL)));
    return json;
}

json_t *fields_to_schema(const struct schema *schema)
{
    json_t *properties = json_object(), *required = json_array();
    json_t *json = json_pack("{s:s,s:o}", "type", "object", "properties", properties);

    for (const struct field *field = schema->fields; field->name; field++) {
        (void) json_object_set_new(properties, field->name, field_to_schema(field));
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

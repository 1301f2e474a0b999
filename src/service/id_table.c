#include "service/id_table.h"

#include <stdint.h>
#include <string.h>

#include "base/banned.h"

/* FNV-1a. Our ids are random and key ids are the operator's, so no client can force collisions. */
static size_t chain_of(const char *id)
{
    uint32_t hash = 2166136261u;

    for (; *id; id++)
        hash = (hash ^ (unsigned char) *id) * 16777619u;
    return hash % ID_TABLE_CHAINS;
}

void id_table_add(struct id_table *table, struct id_node *node, const char *id)
{
    struct id_node **chain = &table->chains[chain_of(id)];

    node->id = id;
    node->next = *chain;
    *chain = node;
    table->len++;
}

struct id_node *id_table_find(const struct id_table *table, const char *id)
{
    struct id_node *node = table->chains[chain_of(id)];

    while (node && strcmp(node->id, id) != 0)
        node = node->next;
    return node;
}

void id_table_remove(struct id_table *table, struct id_node *node)
{
    struct id_node **link;

    if (!node->id)
        return;
    link = &table->chains[chain_of(node->id)];
    while (*link && *link != node)
        link = &(*link)->next;
    if (!*link)
        return;
    *link = node->next;
    node->next = NULL;
    table->len--;
}

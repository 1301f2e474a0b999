/* Objects found by a text id: a fixed number of hash chains, the nodes part of the objects. */
#pragma once

#include <stddef.h>

#define ID_TABLE_CHAINS 1024u

struct id_node {
    struct id_node *next;
    const char *id; /* belongs to the object that contains the node */
};

struct id_table {
    struct id_node *chains[ID_TABLE_CHAINS];
    size_t len;
};

/* The id must not be in the table yet. */
void id_table_add(struct id_table *table, struct id_node *node, const char *id);
struct id_node *id_table_find(const struct id_table *table, const char *id);
/* Does nothing for a node that is not in the table. */
void id_table_remove(struct id_table *table, struct id_node *node);

/* The object whose @member of type struct id_node this is. */
#define ID_NODE_OF(node, type, member) ((type *) ((char *) (node) -offsetof(type, member)))

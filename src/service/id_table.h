/* Things found by a text id: a fixed number of chains, the nodes part of the things themselves. */
#pragma once

#include <stddef.h>

#define ID_TABLE_CHAINS 1024u

struct id_node {
    struct id_node *next;
    const char *id; /* of the thing that holds the node */
};

struct id_table {
    struct id_node *chains[ID_TABLE_CHAINS];
    size_t len;
};

/* The id must not be there yet. */
void id_table_add(struct id_table *table, struct id_node *node, const char *id);
struct id_node *id_table_find(const struct id_table *table, const char *id);
/* Does nothing for a node that is not there. */
void id_table_remove(struct id_table *table, struct id_node *node);

/* The thing of which @member of type struct id_node is a part. */
#define ID_NODE_OF(node, type, member) ((type *) ((char *) (node) -offsetof(type, member)))

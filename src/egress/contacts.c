/* Which hosts were contacted: bounded, whatever a box asks for. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "egress/egress_internal.h"

#include "base/banned.h"

#define OTHERS "(others)"
/* Hosts that were only refused must not displace those that were reached. */
#define ONLY_REFUSED_MAX 16

static bool is_reached(const struct egress_contact *contact)
{
    return contact->requests > 0 || contact->failed > 0;
}

struct egress_contact *contacts_get(struct contacts *contacts, const char *host, uint16_t port,
                                    bool refused)
{
    struct egress_contact *others = &contacts->items[EGRESS_CONTACTS_MAX];
    struct egress_contact *contact;

    for (size_t i = 0; i < contacts->len; i++) {
        contact = &contacts->items[i];
        if (contact->port == port && strcmp(contact->host, host) == 0) {
            if (!refused && !is_reached(contact) && contacts->only_refused > 0)
                contacts->only_refused--;
            return contact;
        }
    }
    if (contacts->len == EGRESS_CONTACTS_MAX ||
        (refused && contacts->only_refused == ONLY_REFUSED_MAX)) {
        memcpy(others->host, OTHERS, sizeof OTHERS);
        return others;
    }
    contacts->only_refused += refused;
    contact = &contacts->items[contacts->len++];
    *contact = (struct egress_contact){ .port = port };
    memcpy(contact->host, host, strlen(host) + 1);
    return contact;
}

static int compare(const void *a, const void *b)
{
    const struct egress_contact *x = a, *y = b;
    int r = strcmp(x->host, y->host);

    return r ? r : (x->port > y->port) - (x->port < y->port);
}

int egress_take_contacts(struct egress_proxy *proxy, struct egress_contact **ret_contacts,
                         size_t *ret_len)
{
    struct egress_contact *list = NULL;
    size_t len, others;

    pthread_mutex_lock(&proxy->lock);
    len = proxy->contacts.len;
    others = proxy->contacts.items[EGRESS_CONTACTS_MAX].host[0] != '\0';
    if (len + others > 0) {
        list = calloc(len + others, sizeof *list);
        if (!list) {
            pthread_mutex_unlock(&proxy->lock);
            return -ENOMEM;
        }
        memcpy(list, proxy->contacts.items, len * sizeof *list);
        if (others)
            list[len] = proxy->contacts.items[EGRESS_CONTACTS_MAX];
    }
    memset(&proxy->contacts, 0, sizeof proxy->contacts);
    pthread_mutex_unlock(&proxy->lock);
    if (list)
        qsort(list, len + others, sizeof *list, compare);
    *ret_contacts = list;
    *ret_len = len + others;
    return 0;
}

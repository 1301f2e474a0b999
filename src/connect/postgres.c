/* PostgreSQL as a source. */
#include "connect/driver.h"

#include "base/banned.h"

static int pg_query(const struct order *order, json_t **ret_done, struct driver_error *error)
{
    (void) order;
    (void) ret_done;
    return driver_fail(error, CONNECT_UNSUPPORTED, "this build has no driver for PostgreSQL yet");
}

static int pg_catalogue(const struct order *order, json_t **ret_catalogue, json_t **ret_done,
                        struct driver_error *error)
{
    (void) ret_catalogue;
    return pg_query(order, ret_done, error);
}

const struct driver driver_postgres = {
    .kind = "postgresql", .query = pg_query, .catalogue = pg_catalogue, .check = pg_query
};

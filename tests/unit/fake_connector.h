/* A connector (connect/connect.h) that does what the first word of the SQL says: for a test that
 * calls it when it was executed as CONNECT_COMMAND. */
#pragma once

#define SECRET "correct horse battery" /* the password in orders of tests */

int fake_connector_main(void);

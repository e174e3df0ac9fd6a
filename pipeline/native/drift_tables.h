/* The tables of drift.c: event names and months, the properties of each, and how properties are spelled. */

#ifndef BACKCAST_DRIFT_TABLES_H
#define BACKCAST_DRIFT_TABLES_H

#include "value_kinds.h"

#define NONE UINT32_MAX
#define MOST_LONG 8

enum { OWN = 1, ADDRESS = 2 }; /* a name that the import sets itself; the name of the address, which it may set */

typedef struct {
    char *bytes; /* with quotes and colon, as in the text */
    uint32_t length, hash;
    int flags;
} Property;

typedef struct {
    uint64_t at_longest, texts, place;
    uint32_t longest, used;
    uint32_t hashes[MOST_LONG];
} LongTexts;

/* One property of one event name in one month. */
typedef struct {
    uint64_t counts[KINDS], places[KINDS];
    uint32_t *hashes; /* the smallest ones, ascending */
    LongTexts *texts; /* NULL where no text is long */
    uint32_t property;
    uint32_t next; /* the entry that came after this one in the latest event, or NONE */
    uint32_t used, room;
    int32_t first, last; /* days */
} Entry;

typedef struct {
    uint64_t events;
    uint32_t *slots; /* entries by property, open addressing, NONE where there is none */
    uint32_t mask, used;
    uint32_t first; /* the entry of the first property of the latest event, or NONE */
    uint32_t name;
    int32_t month;
} Series;

typedef struct {
    PyObject_HEAD
    PyObject *names; /* dict: event name -> number */
    PyObject *texts; /* list of event names by number */
    Series *series;
    Entry *entries;
    Property *properties;
    uint32_t *series_slots, *property_slots;
    uint32_t series_count, series_room, series_mask;
    uint32_t entry_count, entry_room;
    uint32_t property_count, property_room, property_mask;
    uint64_t events;
    int64_t day; /* the day of the previous event, and its month */
    int32_t month;
} Drift;

/* The number of a property that is spelled so, with quotes and colon; NONE with an exception. */
uint32_t drift_property(Drift *self, const char *at, uint32_t length);
/* The number of the entry of a property among those of a series; NONE with an exception. */
uint32_t drift_entry(Drift *self, uint32_t series, uint32_t property);
/* The number of the series of an event name in a month; NONE with an exception. */
uint32_t drift_series(Drift *self, uint32_t name, int32_t month);
/* Free all tables, and leave them empty; `names` and `texts` are NULL afterwards. */
void drift_clear(Drift *self);

#endif

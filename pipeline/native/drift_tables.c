/* Hash tables with open addressing over arrays that grow: see drift_tables.h. */

#include "drift_tables.h"

static int
grow(void *array, uint32_t *room, uint32_t used, size_t size)
{
    if (used < *room)
        return 0;
    uint32_t more = *room ? *room * 2 : 64;
    void *larger = PyMem_Realloc(*(void **)array, (size_t)more * size);
    if (larger == NULL) {
        PyErr_NoMemory();
        return -1;
    }
    *(void **)array = larger;
    *room = more;
    return 0;
}

/* Double a table of slots that is half full: `again` says into which slot a number goes first. */
static int
grow_slots(uint32_t **slots, uint32_t *mask, uint32_t used, uint32_t (*again)(const void *, uint32_t), const void *of)
{
    if (*slots != NULL && used * 2 <= *mask)
        return 0;
    uint32_t room = *slots == NULL ? 16 : (*mask + 1) * 2;
    uint32_t *larger = PyMem_Malloc(room * sizeof(uint32_t));
    if (larger == NULL) {
        PyErr_NoMemory();
        return -1;
    }
    memset(larger, 0xFF, room * sizeof(uint32_t));
    for (uint32_t i = 0; *slots != NULL && i <= *mask; i++)
        if ((*slots)[i] != NONE) {
            uint32_t slot = again(of, (*slots)[i]) & (room - 1);
            while (larger[slot] != NONE)
                slot = (slot + 1) & (room - 1);
            larger[slot] = (*slots)[i];
        }
    PyMem_Free(*slots);
    *slots = larger;
    *mask = room - 1;
    return 0;
}

static inline uint32_t
spread(uint32_t number)
{
    return (number * 2654435761u) >> 7;
}

static uint32_t
slot_of_property(const void *self, uint32_t number)
{
    return ((const Drift *)self)->properties[number].hash;
}

static uint32_t
slot_of_entry(const void *self, uint32_t number)
{
    return spread(((const Drift *)self)->entries[number].property);
}

static uint32_t
slot_of_series(const void *self, uint32_t number)
{
    const Series *series = &((const Drift *)self)->series[number];
    return spread(series->name * 4096u + (uint32_t)series->month);
}

static int
flags_of(const char *at, uint32_t length)
{
    static const char *const own[] = {"\"$geoip_disable\":", "\"distinct_id\":", "\"historical_migration\":",
                                      "\"analytics_source\":", "\"import_name\":"};
    for (size_t i = 0; i < sizeof(own) / sizeof(own[0]); i++)
        if (length == strlen(own[i]) && memcmp(at, own[i], length) == 0)
            return OWN;
    return length == 6 && memcmp(at, "\"$ip\":", 6) == 0 ? ADDRESS : 0;
}

uint32_t
drift_property(Drift *self, const char *at, uint32_t length)
{
    if (grow_slots(&self->property_slots, &self->property_mask, self->property_count, slot_of_property, self) < 0)
        return NONE;
    uint32_t hash = hash_of(at, length), slot = hash & self->property_mask, number;
    for (; (number = self->property_slots[slot]) != NONE; slot = (slot + 1) & self->property_mask) {
        const Property *known = &self->properties[number];
        if (known->hash == hash && known->length == length && memcmp(known->bytes, at, length) == 0)
            return number;
    }
    if (grow(&self->properties, &self->property_room, self->property_count, sizeof(Property)) < 0)
        return NONE;
    char *copy = PyMem_Malloc(length);
    if (copy == NULL) {
        PyErr_NoMemory();
        return NONE;
    }
    memcpy(copy, at, length);
    self->properties[self->property_count] = (Property){copy, length, hash, flags_of(at, length)};
    return self->property_slots[slot] = self->property_count++;
}

uint32_t
drift_entry(Drift *self, uint32_t at, uint32_t property)
{
    Series *series = &self->series[at];
    if (grow_slots(&series->slots, &series->mask, series->used, slot_of_entry, self) < 0)
        return NONE;
    uint32_t slot = spread(property) & series->mask, number;
    for (; (number = series->slots[slot]) != NONE; slot = (slot + 1) & series->mask)
        if (self->entries[number].property == property)
            return number;
    if (grow(&self->entries, &self->entry_room, self->entry_count, sizeof(Entry)) < 0)
        return NONE;
    Entry *entry = &self->entries[self->entry_count];
    memset(entry, 0, sizeof(Entry));
    memset(entry->places, 0xFF, sizeof(entry->places));
    entry->property = property;
    entry->next = NONE;
    entry->first = INT32_MAX;
    entry->last = INT32_MIN;
    series->used++;
    return series->slots[slot] = self->entry_count++;
}

uint32_t
drift_series(Drift *self, uint32_t name, int32_t month)
{
    if (grow_slots(&self->series_slots, &self->series_mask, self->series_count, slot_of_series, self) < 0)
        return NONE;
    uint32_t slot = spread(name * 4096u + (uint32_t)month) & self->series_mask, number;
    for (; (number = self->series_slots[slot]) != NONE; slot = (slot + 1) & self->series_mask)
        if (self->series[number].name == name && self->series[number].month == month)
            return number;
    if (grow(&self->series, &self->series_room, self->series_count, sizeof(Series)) < 0)
        return NONE;
    self->series[self->series_count] = (Series){.first = NONE, .name = name, .month = month};
    return self->series_slots[slot] = self->series_count++;
}

void
drift_clear(Drift *self)
{
    for (uint32_t i = 0; i < self->entry_count; i++) {
        PyMem_Free(self->entries[i].hashes);
        PyMem_Free(self->entries[i].texts);
    }
    for (uint32_t i = 0; i < self->property_count; i++)
        PyMem_Free(self->properties[i].bytes);
    for (uint32_t i = 0; i < self->series_count; i++)
        PyMem_Free(self->series[i].slots);
    PyMem_Free(self->entries);
    PyMem_Free(self->properties);
    PyMem_Free(self->series);
    PyMem_Free(self->property_slots);
    PyMem_Free(self->series_slots);
    self->entries = NULL;
    self->properties = NULL;
    self->series = NULL;
    self->property_slots = self->series_slots = NULL;
    self->entry_count = self->entry_room = self->property_count = self->property_room = 0;
    self->series_count = self->series_room = self->series_mask = self->property_mask = 0;
    self->events = 0;
    self->day = INT64_MIN;
    Py_CLEAR(self->names);
    Py_CLEAR(self->texts);
}

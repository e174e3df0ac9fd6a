/* Eight bytes at once, wherever they are. */

#ifndef BACKCAST_WORDS_H
#define BACKCAST_WORDS_H

#include <stdint.h>
#include <string.h>

static inline uint64_t
read8(const void *at)
{
    uint64_t eight;
    memcpy(&eight, at, 8);
    return eight;
}

#endif

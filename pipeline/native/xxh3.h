/* XXH3 of 128 bits without a seed, as `xxhash.xxh3_128_digest` computes it, of texts of at least 17 bytes. */

#ifndef BACKCAST_XXH3_H
#define BACKCAST_XXH3_H

#include <stddef.h>
#include <stdint.h>

#define XXH3_SHORTEST 17

/* The high half, then the low one. */
void xxh3_128(const unsigned char *text, size_t length, uint64_t halves[2]);

#endif

/* SHA-1 (FIPS 180-4), for uuids of version 5 alone: names, not secrets. */

#include "native.h"

#define ROTATE(x, n) ((x) << (n) | (x) >> (32 - (n)))
#define CHOOSE(b, c, d) ((d) ^ ((b) & ((c) ^ (d))))
#define PARITY(b, c, d) ((b) ^ (c) ^ (d))
#define MAJORITY(b, c, d) (((b) & (c)) | ((d) & ((b) | (c))))

/* The next word of the schedule, of which `w` has the last sixteen. */
#define WORD(t) \
    (w[(t) & 15] = ROTATE(w[((t) + 13) & 15] ^ w[((t) + 8) & 15] ^ w[((t) + 2) & 15] ^ w[(t) & 15], 1))
#define STEP(function, constant, word)                                               \
    do {                                                                             \
        uint32_t next = ROTATE(a, 5) + function(b, c, d) + e + (constant) + (word); \
        e = d, d = c, c = ROTATE(b, 30), b = a, a = next;                            \
    } while (0)

static void
add_block(uint32_t state[5], const unsigned char *block)
{
    uint32_t w[16], a = state[0], b = state[1], c = state[2], d = state[3], e = state[4];
    for (int t = 0; t < 16; t++)
        w[t] = (uint32_t)block[4 * t] << 24 | (uint32_t)block[4 * t + 1] << 16 | (uint32_t)block[4 * t + 2] << 8 |
               block[4 * t + 3];
    for (int t = 0; t < 16; t++)
        STEP(CHOOSE, 0x5A827999, w[t]);
    for (int t = 16; t < 20; t++)
        STEP(CHOOSE, 0x5A827999, WORD(t));
    for (int t = 20; t < 40; t++)
        STEP(PARITY, 0x6ED9EBA1, WORD(t));
    for (int t = 40; t < 60; t++)
        STEP(MAJORITY, 0x8F1BBCDC, WORD(t));
    for (int t = 60; t < 80; t++)
        STEP(PARITY, 0xCA62C1D6, WORD(t));
    state[0] += a, state[1] += b, state[2] += c, state[3] += d, state[4] += e;
}

void
sha1_of(const unsigned char *prefix, size_t prefix_length, const unsigned char *text, size_t length,
        unsigned char digest[20])
{
    uint32_t state[5] = {0x67452301, 0xEFCDAB89, 0x98BADCFE, 0x10325476, 0xC3D2E1F0};
    uint64_t bits = (uint64_t)(prefix_length + length) * 8;
    unsigned char block[64];
    size_t filled = prefix_length; /* a namespace is shorter than a block */
    memcpy(block, prefix, prefix_length);
    while (filled + length >= 64) {
        memcpy(block + filled, text, 64 - filled);
        text += 64 - filled;
        length -= 64 - filled;
        filled = 0;
        add_block(state, block);
    }
    memcpy(block + filled, text, length);
    filled += length;
    block[filled++] = 0x80;
    if (filled > 56) {
        memset(block + filled, 0, 64 - filled);
        add_block(state, block);
        filled = 0;
    }
    memset(block + filled, 0, 56 - filled);
    for (int i = 0; i < 8; i++)
        block[56 + i] = (unsigned char)(bits >> (56 - 8 * i));
    add_block(state, block);
    for (int i = 0; i < 20; i++)
        digest[i] = (unsigned char)(state[i / 4] >> (24 - 8 * (i % 4)));
}

// exchange.cuh: values that blocks of one cooperative launch hand to each other through global
// memory, with neither fences nor counters.
//
// A value travels in packets, a word of it and a tag in each, as in the LL protocol of NCCL.  A
// packet is written by one aligned store of 8 bytes, which is seen whole or not at all: so whoever
// sees the tag that he waits for has the word that was sent with it.
#pragma once
#include "memory.cuh"

#ifdef QUERN_HOST

__device__ inline void store_packet(uint64 *at, uint64 packet)
{
    host_store(at, packet);
}

__device__ inline uint64 load_packet(const uint64 *at)
{
    return host_load(at);
}

// Called where a thread waits for what others write, each time that it is not there.
__device__ inline void yield_turn(HOST_PLACE)
{
    host_place at = {"yield_turn", file, line};
    host_self->yield(host_self, &at);
}

#else

__device__ __forceinline__ void store_packet(uint64 *at, uint64 packet)
{
    asm volatile("st.relaxed.gpu.global.u64 [%0], %1;" ::"l"(at), "l"(packet) : "memory");
}

__device__ __forceinline__ uint64 load_packet(const uint64 *at)
{
    uint64 packet;
    asm volatile("ld.relaxed.gpu.global.u64 %0, [%1];" : "=l"(packet) : "l"(at) : "memory");
    return packet;
}

__device__ __forceinline__ void yield_turn()
{
}

#endif

__device__ __forceinline__ uint32 tag_of(uint64 packet)
{
    return (uint32)(packet >> 32);
}

// Sends a value of whole words; the packet of word w goes to to[w * stride].
template <typename T>
__device__ __forceinline__ void send(uint64 *to, int stride, uint32 tag, const T &value)
{
    static_assert(sizeof(T) % 4 == 0, "whole words");
    uint32 word[sizeof(T) / 4];
    memcpy(word, &value, sizeof value);
#pragma unroll
    for (int w = 0; w < (int)(sizeof(T) / 4); w++)
        store_packet(to + w * stride, (uint64)tag << 32 | word[w]);
}

// The packets of n values, the i-th of them from from[i * step] on, of which n_there are there.
template <typename T, int n> struct Packets {
    static constexpr int words = sizeof(T) / 4;
    uint64 packet[n][words];

    // Loads all of them, as they are now; nothing is looked at yet.
    __device__ __forceinline__ void ask(const uint64 *from, int step, int stride, int n_there)
    {
#pragma unroll
        for (int i = 0; i < n; i++)
#pragma unroll
            for (int w = 0; w < words; w++)
                if (i < n_there)
                    packet[i][w] = load_packet(from + i * step + w * stride);
    }

    // Waits for the values that were sent with that tag: loads again what was not there yet.
    __device__ __forceinline__ void receive(const uint64 *from, int step, int stride, int n_there,
                                            uint32 tag, T (&value)[n])
    {
        bool missing = true;
        while (missing) {
            missing = false;
#pragma unroll
            for (int i = 0; i < n; i++)
#pragma unroll
                for (int w = 0; w < words; w++)
                    if (i < n_there && tag_of(packet[i][w]) != tag) {
                        packet[i][w] = load_packet(from + i * step + w * stride);
                        missing = true;
                    }
            if (missing)
                yield_turn();
        }
#pragma unroll
        for (int i = 0; i < n; i++) {
            uint32 word[words];
#pragma unroll
            for (int w = 0; w < words; w++)
                word[w] = i < n_there ? (uint32)packet[i][w] : 0;
            memcpy(&value[i], word, sizeof(T));
        }
    }
};

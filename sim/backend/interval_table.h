// Written by experiments/intervals/fit.py from measurements on H200s, those set aside left out.
#pragma once

#include "traces/timeline/metrics.h"

namespace corun::sim {

// clang-format off
// By sharing, number of kernels, what is known, and measure: factors of the simulated value; how many rows tell them, and of what where
// these have too few.
inline constexpr Interval kIntervals[5][2][3][4] = {
    {  // alone
        {  // several
            {{0.958, 1.059}, {0.958, 1.059}, {0.958, 1.059}, {0.958, 1.059}},  // time: 100, 100 of alone several time latency, 100 of alone several time latency, 100 of alone several time latency
            {{0.958, 1.059}, {0.958, 1.059}, {0.958, 1.059}, {0.958, 1.059}},  // counters: 100, 100 of alone several counters latency, 100 of alone several counters latency, 100 of alone several counters latency
            {{0.958, 1.059}, {0.958, 1.059}, {0.958, 1.059}, {0.958, 1.059}},  // part: 100, 100 of alone several part latency, 100 of alone several part latency, 100 of alone several part latency
        },
        {  // one
            {{0.958, 1.059}, {0.958, 1.059}, {0.958, 1.059}, {0.958, 1.059}},  // time: 100, 100 of alone one time latency, 100 of alone one time latency, 100 of alone one time latency
            {{0.958, 1.059}, {0.958, 1.059}, {0.958, 1.059}, {0.958, 1.059}},  // counters: 100, 100 of alone one counters latency, 100 of alone one counters latency, 100 of alone one counters latency
            {{0.958, 1.059}, {0.958, 1.059}, {0.958, 1.059}, {0.958, 1.059}},  // part: 100, 100 of alone one part latency, 100 of alone one part latency, 100 of alone one part latency
        },
    },
    {  // turns
        {  // several
            {{0.956, 1.128}, {0.970, 1.262}, {0.930, 1.030}, {0.948, 1.030}},  // time: 160, 123, 119, 82
            {{0.956, 1.128}, {0.970, 1.262}, {0.930, 1.030}, {0.948, 1.030}},  // counters: 160, 123, 119, 82
            {{0.956, 1.128}, {0.970, 1.262}, {0.930, 1.030}, {0.948, 1.030}},  // part: 160, 123, 119, 82
        },
        {  // one
            {{0.956, 1.128}, {0.970, 1.262}, {0.930, 1.030}, {0.948, 1.030}},  // time: 160, 123, 119, 82
            {{0.956, 1.128}, {0.970, 1.262}, {0.930, 1.030}, {0.948, 1.030}},  // counters: 160, 123, 119, 82
            {{0.956, 1.128}, {0.970, 1.262}, {0.930, 1.030}, {0.948, 1.030}},  // part: 160, 123, 119, 82
        },
    },
    {  // together
        {  // several
            {{0.816, 1.238}, {0.849, 1.599}, {0.930, 1.122}, {0.939, 1.043}},  // time: 248, 120, 114, 102
            {{0.875, 1.276}, {0.905, 1.573}, {0.894, 1.065}, {0.934, 1.051}},  // counters: 248, 120, 114, 102
            {{0.875, 1.276}, {0.905, 1.573}, {0.894, 1.065}, {0.934, 1.051}},  // part: 248 of together several counters latency, 120 of together several counters tail, 114 of together several counters throughput, 102 of together several counters stp
        },
        {  // one
            {{0.816, 1.238}, {0.853, 1.734}, {0.652, 1.477}, {0.934, 1.104}},  // time: 248 of together several time latency, 211 of together one part tail, 211 of together one part throughput, 70 of together one part stp
            {{0.875, 1.276}, {0.853, 1.734}, {0.652, 1.477}, {0.934, 1.104}},  // counters: 248 of together several counters latency, 211 of together one part tail, 211 of together one part throughput, 70 of together one part stp
            {{0.875, 1.276}, {0.853, 1.734}, {0.652, 1.477}, {0.934, 1.104}},  // part: 248 of together several counters latency, 211, 211, 70
        },
    },
    {  // part
        {  // several
            {{0.893, 1.564}, {0.815, 1.442}, {0.873, 1.297}, {0.922, 1.042}},  // time: 352, 80, 76, 68
            {{0.843, 1.253}, {0.950, 1.413}, {0.920, 1.091}, {0.951, 1.030}},  // counters: 328, 80, 76, 68
            {{0.832, 1.174}, {0.950, 1.413}, {0.920, 1.091}, {0.951, 1.030}},  // part: 169, 80 of part several counters tail, 76 of part several counters throughput, 68 of part several counters stp
        },
        {  // one
            {{0.482, 1.773}, {0.866, 1.290}, {0.880, 1.177}, {0.930, 1.030}},  // time: 540, 86 of part one part tail, 86 of part one part throughput, 28 of part one part stp
            {{0.718, 1.235}, {0.866, 1.290}, {0.880, 1.177}, {0.930, 1.030}},  // counters: 540, 86 of part one part tail, 86 of part one part throughput, 28 of part one part stp
            {{0.914, 1.117}, {0.866, 1.290}, {0.880, 1.177}, {0.930, 1.030}},  // part: 450, 86, 86, 28
        },
    },
    {  // resized
        {  // several
            {{0.893, 1.564}, {0.644, 1.716}, {0.668, 1.550}, {0.848, 1.125}},  // time: 352 of part several time latency, 254 of resized one part tail, 254 of resized one part throughput, 84 of resized one part stp
            {{0.843, 1.253}, {0.644, 1.716}, {0.668, 1.550}, {0.848, 1.125}},  // counters: 328 of part several counters latency, 254 of resized one part tail, 254 of resized one part throughput, 84 of resized one part stp
            {{0.832, 1.174}, {0.644, 1.716}, {0.668, 1.550}, {0.848, 1.125}},  // part: 169 of part several part latency, 254 of resized one part tail, 254 of resized one part throughput, 84 of resized one part stp
        },
        {  // one
            {{0.482, 1.773}, {0.644, 1.716}, {0.668, 1.550}, {0.848, 1.125}},  // time: 540 of part one time latency, 254 of resized one part tail, 254 of resized one part throughput, 84 of resized one part stp
            {{0.718, 1.235}, {0.644, 1.716}, {0.668, 1.550}, {0.848, 1.125}},  // counters: 540 of part one counters latency, 254 of resized one part tail, 254 of resized one part throughput, 84 of resized one part stp
            {{0.914, 1.117}, {0.644, 1.716}, {0.668, 1.550}, {0.848, 1.125}},  // part: 450 of part one part latency, 254, 254, 84
        },
    },
};
// clang-format on

}  // namespace corun::sim

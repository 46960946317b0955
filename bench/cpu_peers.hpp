// The peers of the CPU backend: loops vectorised by hand for this machine, split over threads by hand.
#pragma once

namespace peers {

/// y[i] = a x[i] + y[i]
void saxpy(float* y, float a, const float* x, long n, int threads);
/// z[i] = x[i] + y[i]
void add(float* z, const float* x, const float* y, long n, int threads);
/// Softmax of every row; y and x are [rows, columns], contiguous.
void softmax(float* y, const float* x, long rows, long columns, int threads);
/// std::memcpy, a piece on each thread.
void copy(void* to, const void* from, long bytes, int threads);
/// Reads memory, several streams on each thread; what it returns depends on every byte.
float read(const void* from, long bytes, int threads);

}  // namespace peers

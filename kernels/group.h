// Group: the threads that work together on one row of a kernel, and the loops they share.
//
// A kernel body is written once and runs as
//   SerialGroup  one host thread, its loops vectorised   (the CPU device)
//   ThreadGroup  N host threads and a barrier            (tests: strides and races without a GPU)
//   BlockGroup   one CUDA thread block                   (the CUDA device)
// Rules of a body: no containers, no exceptions, no state; what one thread of the group writes
// another may read only behind sync(). sum() and max() return the same value to every thread.
#pragma once
#include <concepts>
#include <cstdint>
#include <limits>
#include <type_traits>

#if defined(__CUDACC__)
#define HOST_DEVICE __host__ __device__ inline
#else
#define HOST_DEVICE inline
#endif

// Iterations are independent but for the named reduction; GCC and Clang then need no proof of it.
#if defined(__CUDACC__)
#define KERNELS_PRAGMA(text)
#else
#define KERNELS_PRAGMA(text) _Pragma(#text)
#endif
#define KERNELS_SIMD KERNELS_PRAGMA(omp simd)

namespace kernels {

template <class G>
concept Group = requires(const G group, float x, double y) {
  { G::kLeastSize } -> std::convertible_to<int>;  // that such a group may have
  { group.rank() } -> std::same_as<int>;
  { group.size() } -> std::same_as<int>;
  { group.sum(x) } -> std::same_as<float>;
  { group.max(x) } -> std::same_as<float>;
  { group.sum(y) } -> std::same_as<double>;
  { group.max(y) } -> std::same_as<double>;
  group.sync();
};

struct SerialGroup {
  static constexpr int kLeastSize = 1;
  HOST_DEVICE int rank() const { return 0; }
  HOST_DEVICE int size() const { return 1; }
  template <class A>
  HOST_DEVICE A sum(A x) const {
    return x;
  }
  template <class A>
  HOST_DEVICE A max(A x) const {
    return x;
  }
  HOST_DEVICE void sync() const {}
};

// f(i) for i in [0, n), shared out over the group. An index belongs to the same thread in every
// loop of the same n, so a body may read back what it wrote at that index without sync().
template <Group G, class F>
HOST_DEVICE void each(const G& group, int64_t n, F f) {
  if constexpr (std::is_same_v<G, SerialGroup>) {
    KERNELS_SIMD
    for (int64_t i = 0; i < n; ++i) f(i);
  } else {
    for (int64_t i = group.rank(); i < n; i += group.size()) f(i);
  }
}

// Below this length a row is summed in one stream, above in four side by side: one alone would wait
// for each addition.
constexpr int64_t kFourStreams = 512;

// The sum of f(i) over [0, n), in arithmetic A. Its order depends on n and the instruction set
// only. A body with work of its own between the additions gains nothing by more than one stream.
template <class A, int kStreams = 4, Group G, class F>
HOST_DEVICE A sum_each(const G& group, int64_t n, F f) {
  A total = 0;
  if constexpr (std::is_same_v<G, SerialGroup>) {
    int64_t done = 0;
    if (kStreams == 4 && n >= kFourStreams) {
      const int64_t quarter = n / 4;
      A a = 0, b = 0, c = 0, d = 0;
      KERNELS_PRAGMA(omp simd reduction(+ : a, b, c, d))
      for (int64_t i = 0; i < quarter; ++i) {
        a += f(i);
        b += f(i + quarter);
        c += f(i + 2 * quarter);
        d += f(i + 3 * quarter);
      }
      total = (a + b) + (c + d);
      done = 4 * quarter;
    }
    KERNELS_PRAGMA(omp simd reduction(+ : total))
    for (int64_t i = done; i < n; ++i) total += f(i);
  } else {
    for (int64_t i = group.rank(); i < n; i += group.size()) total += f(i);
  }
  return group.sum(total);
}

// The maximum of f(i) over [0, n); -infinity when there is none. A NaN is passed over: whoever must
// notice it looks at a sum.
template <class A, Group G, class F>
HOST_DEVICE A max_each(const G& group, int64_t n, F f) {
  const auto higher = [](A top, A value) { return top < value ? value : top; };
  A top = -std::numeric_limits<A>::infinity();
  if constexpr (std::is_same_v<G, SerialGroup>) {
    int64_t done = 0;
    if (n >= kFourStreams) {
      const int64_t quarter = n / 4;
      A a = top, b = top, c = top, d = top;
      KERNELS_PRAGMA(omp simd reduction(max : a, b, c, d))
      for (int64_t i = 0; i < quarter; ++i) {
        a = higher(a, f(i));
        b = higher(b, f(i + quarter));
        c = higher(c, f(i + 2 * quarter));
        d = higher(d, f(i + 3 * quarter));
      }
      top = higher(higher(a, b), higher(c, d));
      done = 4 * quarter;
    }
    KERNELS_PRAGMA(omp simd reduction(max : top))
    for (int64_t i = done; i < n; ++i) top = higher(top, f(i));
  } else {
    for (int64_t i = group.rank(); i < n; i += group.size()) top = higher(top, f(i));
  }
  return group.max(top);
}

}  // namespace kernels

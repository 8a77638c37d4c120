// Reading and writing of quantities with units: counts, bytes, durations.
#pragma once
#include <cstdint>
#include <string>
#include <string_view>

namespace engine {

constexpr double kGiB = 1024.0 * 1024.0 * 1024.0;

// "175b" → 175e9, "300B" → 300e9, "1.5t" → 1.5e12, "512k" → 512,000, "2048" → 2048. Suffixes k m b
// t in either case are powers of a thousand. Throws InputError; `what` names the value in its
// message.
double parse_count(std::string_view text, std::string_view what);
// "80GiB", "80GB", "512MiB", "1024" (bytes) → bytes.
double parse_bytes(std::string_view text, std::string_view what);
// "14d", "6h", "10m", "2s", "500ms", "20us" → seconds. A bare number is refused: the unit is
// needed.
double parse_seconds(std::string_view text, std::string_view what);

std::string format_count(double count);      // 174.6 B, 1.2 T, 3.1 M, 42
std::string format_bytes(double bytes);      // 61.8 GiB, 512 MiB
std::string format_seconds(double seconds);  // 21.7 s, 24.1 days, 310 ms, 12 µs
std::string format_grouped(int64_t count);   // 1,024

}  // namespace engine

// Tuning as text, for the TESSERA_TUNING knob, records of the tuner, and reports.
#pragma once
#include <string>
#include <string_view>

#include "tessera/passes/optimize.hpp"

namespace tessera::passes {

/// "warps=4 ctas=2 occupancy=1 latency=6 ahead=2 access=tma stores=view split=0 pipeline=0 order=0
/// unmask=0 hints=0 early=0 overlap=2": any of these, in any order, separated by spaces or commas; access and stores
/// are tma, view or pointer, hints is Tuning::choose_hints, overlap the number of an Overlap. Throws CompileError
/// that names the first unknown word.
Tuning parse_tuning(std::string_view text);

inline constexpr int kMaxWarps = 32;  ///< of a block: 1024 threads, every generation
inline constexpr int kMaxCtas = 16;   ///< of a cluster, from sm_90 on

/// Throws CompileError for a number that no GPU takes, as 3 or 64 warps.
void check_numbers(const Tuning&);
/// Throw CompileError unless `value` is a power of two, or any number, from 1 to `most`.
void require_power_of_two(const char* what, int value, int most);
void require_range(const char* what, int value, int most);

/// The text from which parse_tuning makes the same tuning; empty for defaults.
std::string text_of(const Tuning&);

}  // namespace tessera::passes

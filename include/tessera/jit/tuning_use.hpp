// Tuning records in use: as numbers in specialization keys, or from files that apply to the whole process.
#pragma once
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "tessera/base/source_location.hpp"
#include "tessera/jit/tuning_record.hpp"
#include "tessera/runtime/device.hpp"

namespace tessera {

/// Every kernel without a record of its own that is compiled from now on takes its hints from the record of this file
/// that fits it: kernel, obligations, device and assembler (the last one that does). Throws IoError as read_records().
/// TESSERA_RECORDS does the same for the files that it names; what use_records() adds comes after them.
void use_records(const std::string& path);

namespace jit {

/// A record as a number: a part of specialization keys. 0: none.
using TuningId = std::uint32_t;
inline constexpr TuningId kMostTunings = (1u << 24) - 1;  ///< what a key has room for

/// The number of a record; equal records have equal ones. Allocates nothing if it has been given before. Throws
/// CompileError, of the place `where`, if the hints have an unknown word.
TuningId intern_tuning(const TuningRecord& record, SourceLocation where = {});
/// The record of a number.
const TuningRecord& interned_tuning(TuningId id);

/// A device as records name it: "NVIDIA H200", "cpu".
std::string device_description(Device device);

/// The combinations of "warps=2,4 latency=2,4,6" as hints, "warps=2 latency=2" first; one empty text of an empty one.
/// Throws CompileError if a word is unknown.
std::vector<std::string> hint_combinations(std::string_view space);

}  // namespace jit
}  // namespace tessera

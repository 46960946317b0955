// What a tuning run found, and what it was found for; as a line of text. docs/tuning.md.
#pragma once
#include <string>
#include <string_view>

namespace tessera {

/// One result of the tuner. A record made by hand (`TuningRecord r; r.hints = "warps=8";`) has no hash, and then
/// nothing about it is checked when it is used.
struct TuningRecord {
  std::string kernel;     ///< label of the kernel that won: "softmax"
  std::string space;      ///< name of the space
  std::string choice;     ///< name of the space's candidate that won
  std::string hints;      ///< "warps=4 latency=2" (passes/tuning_text.hpp); empty: what the cost model says
  std::string arguments;  ///< of the run: types, extents, strides
  std::string hash;       ///< SHA-256 of the kernel's recording without source lines, 64 hexadecimal digits
  std::string held;       ///< the obligations that held, as a hexadecimal number
  std::string device;     ///< "NVIDIA H200", "cpu"
  std::string gpu;        ///< "sm_90"; empty for the CPU
  std::string assembler;  ///< its release, "13.5"; empty for the CPU
  std::string library;    ///< version of Tessera
  std::string date;       ///< "2026-11-21"
  std::string runner_up;  ///< choice and hints of the second best
  double ms = 0;          ///< median of one launch
  double default_ms = 0;  ///< of the first candidate without hints
  double runner_up_ms = 0;
  bool operator==(const TuningRecord&) const = default;
};

namespace jit {

/// The record as one line (a JSON object, without the line's end), with a checksum as its last field.
std::string line_of(const TuningRecord& record);
/// What line_of() wrote. Throws IoError that says what is wrong with the line.
TuningRecord record_of(std::string_view line);
/// True if `b` is about the same thing as `a`: it replaces it in a file.
bool same_subject(const TuningRecord& a, const TuningRecord& b);
/// The version of Tessera: "0.1.0".
const char* library_version();

}  // namespace jit
}  // namespace tessera

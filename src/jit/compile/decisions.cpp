// A line for each kernel that is compiled.
#include "jit/compile/decisions.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <cstdio>

#include "jit/code/json_text.hpp"
#include "jit/code/sha256.hpp"
#include "tessera/base/env.hpp"
#include "tessera/base/error.hpp"
#include "tessera/base/format.hpp"
#include "tessera/machine/machine.hpp"
#include "tessera/passes/features.hpp"

namespace tessera::jit {
namespace {

std::string features_text(const passes::Features& features) {
  std::string text;
  for (std::size_t i = 0; i < passes::kFeatures; ++i)
    text += concat(i == 0 ? "" : ", ", json_text(passes::feature_table()[i].name), ": ",
                   features[static_cast<passes::Feature>(i)]);
  return text;
}

/// One write to a file that is opened for appending: lines of several threads and processes stay whole.
void append(const char* path, const std::string& line) {
  const int file = open(path, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0644);
  const bool written = file >= 0 && ::write(file, line.data(), line.size()) == static_cast<ssize_t>(line.size());
  if (file >= 0) close(file);
  if (!written)
    throw IoError(concat("cannot append to '", path, "', as TESSERA_DECISIONS asks: check the folder and its rights."));
}

}  // namespace

void note_decision(const std::string& label, std::uint64_t predicates, const Prepared& made, const std::string& hints,
                   const CodeNotes& notes, double seconds) {
  const char* path = env(Env::DECISIONS);
  if (path == nullptr) return;
  const passes::Choices& c = made.choices;
  const CubinResources& r = notes.resources;
  char numbers[32], time[32];
  std::snprintf(numbers, sizeof numbers, "%llx", static_cast<unsigned long long>(predicates));
  std::snprintf(time, sizeof time, "%.3g", seconds);
  const SourceLocation where = entry_of(*made.module).loc;
  append(path, concat("{\"kernel\": ", json_text(label),
                      ", \"where\": ", json_text(concat(where.file, ":", where.line)), ", \"predicates\": \"", numbers,
                      "\", \"gpu\": \"", machine::gpu_name(made.target.sm), "\", \"hints\": ", json_text(hints),
                      ", \"form\": ", json_text(name_of(made.form)), ", \"code\": \"", hex(made.identity),
                      "\", \"warps\": ", c.warps, ", \"ctas\": ", c.ctas, ", \"occupancy\": ", c.occupancy,
                      ", \"latency\": ", c.latency, ", \"pieces\": ", c.abi.pieces, ", \"registers\": ", r.registers,
                      ", \"stack\": ", r.stack, ", \"shared\": ", r.shared, ", \"threads\": ", r.threads,
                      ", \"seconds\": ", time, ", \"features\": {", features_text(c.features), "}}\n"));
}

}  // namespace tessera::jit

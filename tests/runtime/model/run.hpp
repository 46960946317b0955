// One run of a program on the model device, compared step by step with the sequential program.
#pragma once
#include <string>
#include <vector>

#include "runtime/model/choices.hpp"
#include "runtime/model/program.hpp"

namespace tessera::runtime::model {

/// The devices of docs/internals/model-check.md, with the failures that are injected.
struct Setting {
  enum class On : std::uint8_t { Gpu, Cpu, Cuda } on = On::Gpu;
  enum class Fault : std::uint8_t { None, Once, Dead } fault = Fault::None;
  bool foreign = false;  ///< storage 0 is borrowed memory
  int defect = 0;        ///< a Defect of the model device
};
std::string text(const Setting& setting);
/// Throws std::invalid_argument.
Setting parse_setting(const std::string& text);

struct Outcome {
  std::string violation;  ///< empty: the promises held
  bool redundant = false;
  std::vector<std::string> log;
};

/// With `log` the outcome has the steps in their order.
Outcome run(const Program& program, const Setting& setting, Choices& choices, bool log = false);
/// On the model device; over the CUDA backend and the fake driver.
Outcome run_model(const Program& program, const Setting& setting, Choices& choices, bool log);
Outcome run_cuda(const Program& program, const Setting& setting, Choices& choices, bool log);

}  // namespace tessera::runtime::model

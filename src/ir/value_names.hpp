// Names of SSA values as MLIR's printer and NVIDIA's dialect choose them: %0, %arg0, %tview, %cst_1_f32, %tile_4.
#pragma once
#include <string>
#include <unordered_map>
#include <unordered_set>

#include "tessera/ir/operation.hpp"

namespace tessera::ir {

class ValueNames {
 public:
  explicit ValueNames(const Function&);
  /// For operations outside any function: values are numbered as they are met.
  ValueNames() = default;

  /// As an operand: "%0", "%0#1".
  std::string use(Value);
  /// What stands left of `=`: "%0", "%0:2", "%tile, %result_token"; empty without results.
  std::string results(const Operation&);

 private:
  struct Scope {
    unsigned next_value = 0, next_argument = 0, next_conflict = 0;
  };
  void block(const Block&, bool entry);
  void block_arguments(const Block&, bool entry);
  void operation(const Operation&);
  void set(Value, const std::string& name);
  std::string unique(const std::string& name);

  Scope scope_;
  std::unordered_set<std::string> used_;
  std::vector<std::string> added_;  ///< names of the open regions, to be freed when they end
  std::unordered_map<const ValueImpl*, std::string> names_;
};

}  // namespace tessera::ir

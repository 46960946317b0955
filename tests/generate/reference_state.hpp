// What the reference interpreter keeps: values, variables, tensors. See reference.hpp.
#pragma once
#include <stdexcept>
#include <vector>

#include "generate/memory.hpp"
#include "generate/number.hpp"
#include "generate/reference.hpp"

namespace tessera::generate {

struct Value {
  Type type;
  std::vector<Cell> cells;
};

using Position = std::array<std::int64_t, kMaxAxes>;
/// The place of element k of a row-major tile.
Position place(const Type&, int k);
/// Element of `from`, which broadcasts to `to`, at element k of `to`.
int source(const Type& from, const Type& to, int k);

/// A tensor or a view of one.
struct Tensor {
  ElementType elem = ElementType::i32;
  int rank = 0;
  std::byte* origin = nullptr;
  Position dims{}, strides{};

  bool inside(const Position& at) const;
  std::byte* address(const Position& at) const;
};

struct TooLong {};

class Interpreter {
 public:
  Interpreter(const Program&, const Launch&, const Memory&, std::byte*);
  bool requirements();
  std::int64_t host_number(std::int64_t param) const;  ///< what a Constant holds
  bool regions_agree(const Node&) const;
  void run(std::int64_t blocks);

 private:
  // Statements.
  void block(const Node&);
  void statement(const Node&);
  void loop(const Node&);
  void tile_loop(const Node&);
  void call(const Node&);
  void store_tile(const Node&, const Position& origin, const Type& tile, const Value&);
  void scatter(const Node&);
  void scatter_elements(const Node&);
  void accumulate(const Node&);
  void accumulate_one(const Tensor&, int op, const Position&, Cell);
  void accumulate_tile(const Node&);

  // Values.
  Value value(const Node&);
  Value leaf(const Node&);
  Value load(const Node&);
  Value load_tile(const Node&);
  Value load_like(const Node&);
  Value gather(const Node&);
  Value gather_elements(const Node&);
  Value shaped(const Node&);
  Value reduce(const Node&);
  Value extremum(const Node&);
  Value product(const Node&);
  std::int64_t scalar(const Node& n) { return value(n).cells[0].i; }

  Cell padding(const Node&, std::int64_t pad, ElementType);
  Value region(const Tensor&, const Type& tile, const Position& start, Cell pad);
  Tensor tensor(std::int64_t number) const;
  Position piece_index(std::int64_t piece) const;
  std::int64_t piece_count(std::int64_t piece, int axis) const;
  Value& variable(std::int64_t var) { return vars_[static_cast<std::size_t>(alias_[static_cast<std::size_t>(var)])]; }
  void step(std::int64_t n) {
    if ((steps_ += n) > kMaxSteps) throw TooLong{};
  }

  static constexpr std::int64_t kMaxSteps = 400000;
  const Program& p_;
  const Launch& launch_;
  std::vector<Tensor> tensors_;        ///< by parameter
  std::vector<std::int64_t> numbers_;  ///< by parameter: the scalars and constants
  std::vector<Value> vars_;
  std::vector<std::int64_t> alias_;  ///< the variable that a parameter by reference stands for; else itself
  std::vector<Position> index_;      ///< by parameter: the block's piece, or the tile of the loop
  std::int64_t block_ = 0, blocks_ = 0, steps_ = 0;
};

}  // namespace tessera::generate

// Evaluates kernels over tiles of i32 (and scalars of i1) the simplest way there is: every value has elements of its
// own, nothing shares memory, nothing moves. Random programs are compared with it.
#pragma once
#include <map>
#include <stdexcept>

#include "codegen/cpu/kernel.hpp"

namespace tessera::test {

using Ints = std::vector<std::int32_t>;

/// One block's run. Entry arguments are addresses of tensors or scalars, as slots.
class Naive {
 public:
  explicit Naive(std::span<const std::uint64_t> args) : args_(args) {}

  void run(const Function& entry) { run_block(entry.body()); }

 private:
  enum class Left { Fell, Yield, Continue, Break, Return };
  /// How a region ended, and the values that it handed on.
  struct End {
    Left how = Left::Fell;
    std::vector<Ints> values;
  };

  static std::vector<std::int64_t> strides(std::span<const std::int64_t> shape) {
    std::vector<std::int64_t> s(shape.size(), 1);
    for (std::size_t a = shape.size(); a-- > 1;) s[a - 1] = s[a] * shape[a];
    return s;
  }
  /// Calls f(element number, coordinates) for the elements of a tile in row-major order.
  template <class F>
  static void each(Type tile, F&& f) {
    const auto shape = tile.shape();
    const auto by = strides(shape);
    for (std::int64_t n = 0; n < tile.num_elements(); ++n) {
      std::vector<std::int64_t> at;
      for (std::size_t a = 0; a < shape.size(); ++a) at.push_back(n / by[a] % shape[a]);
      f(static_cast<std::size_t>(n), at);
    }
  }
  static std::size_t offset(const std::vector<std::int64_t>& at, const std::vector<std::int64_t>& by) {
    std::int64_t n = 0;
    for (std::size_t a = 0; a < at.size(); ++a) n += at[a] * by[a];
    return static_cast<std::size_t>(n);
  }

  Ints get(Value v) const {
    if (auto found = values_.find(v.impl()); found != values_.end()) return found->second;
    if (v.def() != nullptr || v.argument_block()->parent() != nullptr) throw std::logic_error("naive: no such value");
    return {static_cast<std::int32_t>(args_[v.index()])};
  }
  std::vector<Ints> all(const Operation& op, std::size_t first = 0) const {
    std::vector<Ints> out;
    for (std::size_t i = first; i < op.num_operands(); ++i) out.push_back(get(op.operand(i)));
    return out;
  }
  void set_args(const Block& body, const std::vector<Ints>& values, std::size_t first) {
    for (std::size_t i = 0; i < values.size(); ++i) values_[body.arg(first + i).impl()] = values[i];
  }
  void set_results(const Operation& op, const std::vector<Ints>& values) {
    for (std::size_t i = 0; i < op.num_results(); ++i) values_[op.result(i).impl()] = values[i];
  }

  End run_block(const Block& block) {
    for (const Operation& op : block) {
      End end = run_op(op);
      if (end.how != Left::Fell) return end;
    }
    return {};
  }

  End run_op(const Operation& op) {
    switch (op.op()) {
      case Op::Yield: return {Left::Yield, all(op)};
      case Op::Continue: return {Left::Continue, all(op)};
      case Op::Break: return {Left::Break, all(op)};
      case Op::Return: return {Left::Return, {}};
      case Op::For: return run_for(op);
      case Op::Loop: return run_loop(op);
      case Op::If: {
        const bool taken = get(op.operand(0))[0] != 0;
        if (!taken && op.num_regions() == 1) return {};
        End end = run_block(op.region(taken ? 0 : 1));
        if (end.how != Left::Yield && end.how != Left::Fell) return end;
        set_results(op, end.values);
        return {};
      }
      case Op::MakeToken:
      case Op::MakeTensorView:
      case Op::MakePartitionView: return {};
      case Op::LoadViewTko:
      case Op::StoreViewTko: access(op); return {};
      default: values_[op.result().impl()] = compute(op); return {};
    }
  }

  End run_for(const Operation& op) {
    const std::int32_t hi = get(op.operand(1))[0], by = get(op.operand(2))[0];
    std::vector<Ints> carried = all(op, 3);
    for (std::int32_t i = get(op.operand(0))[0]; i < hi; i += by) {
      values_[op.region(0).arg(0).impl()] = {i};
      set_args(op.region(0), carried, 1);
      End end = run_block(op.region(0));
      if (end.how == Left::Return) return end;
      carried = std::move(end.values);
    }
    set_results(op, carried);
    return {};
  }

  End run_loop(const Operation& op) {
    std::vector<Ints> carried = all(op);
    for (;;) {
      set_args(op.region(0), carried, 0);
      End end = run_block(op.region(0));
      if (end.how == Left::Return) return end;
      if (end.how == Left::Break) {
        set_results(op, end.values);
        return {};
      }
      carried = std::move(end.values);
    }
  }

  Ints compute(const Operation& op) {
    const Type type = op.result().type();
    Ints out(static_cast<std::size_t>(type.num_elements()));
    const std::vector<Ints> in = all(op);
    const auto u = [&](std::size_t operand, std::size_t i) { return static_cast<std::uint32_t>(in[operand][i]); };
    const auto by_operand = [&] { return strides(op.operand(0).type().shape()); };
    each(type, [&](std::size_t n, const std::vector<std::int64_t>& at) {
      switch (op.op()) {
        case Op::Constant: {
          const auto& dense = *op.attr(AttrName::value)->as<DenseAttr>();
          const std::size_t width = type.elem() == Elem::I1 ? 1 : 4;
          std::uint32_t bits = 0;
          for (std::size_t k = 0; k < width; ++k)
            bits |= std::to_integer<std::uint32_t>(dense.bytes[(dense.splat ? 0 : n * width) + k]) << 8 * k;
          out[n] = static_cast<std::int32_t>(bits);
          return;
        }
        case Op::Iota: out[n] = static_cast<std::int32_t>(n); return;
        case Op::AddI: out[n] = static_cast<std::int32_t>(u(0, n) + u(1, n)); return;
        case Op::MulI: out[n] = static_cast<std::int32_t>(u(0, n) * u(1, n)); return;
        case Op::XOrI: out[n] = in[0][n] ^ in[1][n]; return;
        case Op::AndI: out[n] = in[0][n] & in[1][n]; return;
        case Op::CmpI: out[n] = in[0][n] < in[1][n]; return;  // the generator compares with Less
        case Op::Reshape: out[n] = in[0][n]; return;
        case Op::Permute: {
          const auto& order = op.attr(AttrName::permutation)->as<I32ArrayAttr>()->values;
          std::vector<std::int64_t> from(at.size());
          for (std::size_t a = 0; a < at.size(); ++a) from[static_cast<std::size_t>(order[a])] = at[a];
          out[n] = in[0][offset(from, by_operand())];
          return;
        }
        case Op::Broadcast: {
          std::vector<std::int64_t> from = at;
          for (std::size_t a = 0; a < at.size(); ++a)
            if (op.operand(0).type().shape()[a] == 1) from[a] = 0;
          out[n] = in[0][offset(from, by_operand())];
          return;
        }
        case Op::Extract: {  // indices count slices, and are inside
          std::vector<std::int64_t> from = at;
          for (std::size_t a = 0; a < at.size(); ++a) from[a] += in[1 + a][0] * type.shape()[a];
          out[n] = in[0][offset(from, by_operand())];
          return;
        }
        case Op::Reduce: {  // the generator adds
          const auto dim = static_cast<std::size_t>(op.int_attr(AttrName::dim));
          std::vector<std::int64_t> from = at;
          from.insert(from.begin() + static_cast<std::ptrdiff_t>(dim), 0);
          std::uint32_t sum = 0;
          for (auto& k = from[dim]; k < op.operand(0).type().shape()[dim]; ++k) sum += u(0, offset(from, by_operand()));
          out[n] = static_cast<std::int32_t>(sum);
          return;
        }
        default: throw std::logic_error("naive: not an operation it knows");
      }
    });
    return out;
  }

  /// Loads and stores of whole-rank partition views of tensors with fixed extents; outside is zero or dropped.
  void access(const Operation& op) {
    const Operation& view = *op.single("view").def();
    const Operation& tensor = *view.operand(0).def();
    const auto shape = tensor.result().type().shape(), by = tensor.result().type().strides();
    auto* memory = reinterpret_cast<std::int32_t*>(args_[tensor.single("base").index()]);
    const auto tile = view.result().type().tile_shape();
    const auto index = op.group("index");
    const bool load = op.op() == Op::LoadViewTko;
    const Type type = view.result().type().view_tile();
    Ints data = load ? Ints(static_cast<std::size_t>(type.num_elements())) : get(op.single("tile"));
    each(type, [&](std::size_t n, const std::vector<std::int64_t>& at) {
      std::int64_t element = 0;
      for (std::size_t a = 0; a < at.size(); ++a) {
        const std::int64_t i = get(index[a])[0] * static_cast<std::int64_t>(tile[a]) + at[a];
        if (i >= shape[a]) return;
        element += i * by[a];
      }
      (load ? data[n] : memory[element]) = load ? memory[element] : data[n];
    });
    if (load) values_[op.result(0).impl()] = std::move(data);
  }

  std::span<const std::uint64_t> args_;
  std::map<const ValueImpl*, Ints> values_;
};

}  // namespace tessera::test

// Rotary embedding, rows of a table, and a transposed copy.
#include <cmath>

#include "case.hpp"
#include "tessera/kernels/embedding.hpp"
#include "tessera/kernels/rope.hpp"
#include "tessera/kernels/transpose.hpp"

namespace compare {
namespace {

Ready rope_case(const Args& args) {
  return by_type<bf16, f32>(args, [&]<class T>(std::type_identity<T>) {
    const Size tokens = size_of(args, "tokens"), heads = size_of(args, "heads"), d = size_of(args, "d");
    const bool interleaved = args.number("interleaved", 0) != 0;
    const auto positions = whole<i32>(seed_of(args, 1), 0, 4096, tokens);
    const auto line = [=](Size at) -> Line {
      const Size half = d / 2;
      const auto before = [=](Size i) { return gpu_bench::normal_input<T>(0xBAD, at * d + i); };
      return [=](Size i) {
        const Size pair = interleaved ? i / 2 : i % half;
        const bool second = interleaved ? i % 2 != 0 : i >= half;
        const double a = before(interleaved ? 2 * pair : pair), b = before(interleaved ? 2 * pair + 1 : pair + half);
        const double angle =
            positions(at / heads) * std::pow(10000.0, -2.0 * static_cast<double>(pair) / static_cast<double>(d));
        return second ? a * std::sin(angle) + b * std::cos(angle) : a * std::cos(angle) - b * std::sin(angle);
      };
    };
    kernels::RopeOptions options;
    options.interleaved = interleaved;
    // The angle of a position in the thousands has an error of about 1e-4 in f32.
    return ready(args, {2 * bytes_of<T>(tokens * heads * d)}, outputs(output<T>(line, tokens, heads, d).within(4e-3)),
                 inputs(positions), [=](const Stream& on, auto& x, const auto& at) {
                   x = kernels::rope(std::move(x), at, options).on(on);
                 });
  });
}

Ready embedding_case(const Args& args) {
  return by_type<bf16, f32>(args, [&]<class T>(std::type_identity<T>) {
    const Size rows = size_of(args, "rows"), d = size_of(args, "d"), tokens = size_of(args, "tokens");
    const auto table = normal<T>(seed_of(args, 1), rows, d);
    const auto ids = whole<i32>(seed_of(args, 2), 0, rows, tokens);
    const auto line = [=](Size i) -> Line {
      return [=, id = static_cast<Size>(ids(i))](Size j) { return table(id, j); };
    };
    return ready(
        args, {2 * bytes_of<T>(tokens * d)}, outputs(output<T>(line, tokens, d)), inputs(table, ids),
        [](const Stream& on, auto& y, const auto& from, const auto& at) { y = kernels::embedding(from, at).on(on); });
  });
}

Ready transpose_case(const Args& args) {
  return by_type<bf16, f32>(args, [&]<class T>(std::type_identity<T>) {
    const Size rows = size_of(args, "rows"), columns = size_of(args, "columns");
    const auto x = normal<T>(seed_of(args, 1), rows, columns);
    const auto line = [=](Size i) -> Line { return [=](Size j) { return x(j, i); }; };
    return ready(args, {2 * bytes_of<T>(rows * columns)}, outputs(output<T>(line, columns, rows)), inputs(x),
                 [](const Stream& on, auto& y, const auto& from) { y = kernels::transpose(from).on(on); });
  });
}

}  // namespace

std::vector<Case> table_cases() {
  return {{"rope", rope_case}, {"embedding", embedding_case}, {"transpose", transpose_case}};
}

}  // namespace compare

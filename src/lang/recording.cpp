// Starting and ending a recording: entry arguments, block number, requirements.
#include <algorithm>
#include <atomic>

#include "lang/recording_impl.hpp"
#include "tessera/base/error.hpp"
#include "tessera/base/format.hpp"

namespace tessera::lang {

using ir::Elem;
using ir::Op;
using ir::Type;
using ir::Value;

namespace {

thread_local Recording* innermost = nullptr;

std::uint32_t next_serial() {
  static std::atomic<std::uint32_t> counter{0};
  return ++counter;
}

std::string spelling(ParamKind kind, const char* element, std::span<const std::int64_t> extents) {
  static constexpr const char* names[] = {"Mut", "MutTiles",     "In",           "Scalar",
                                          "Acc", "unsafe_::Mut", "unsafe_::Ptr", "Constant"};
  std::string text = concat(names[static_cast<int>(kind)], "<", element);
  for (const std::int64_t e : extents) text += e == kDyn ? std::string(", dyn") : concat(", ", e);
  return text + ">";
}

/// Entry names are symbols: anything else becomes '_'.
std::string symbol(std::string name) {
  for (char& c : name) {
    const bool ok = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
    if (!ok) c = '_';
  }
  return name.empty() ? "kernel" : name;
}

}  // namespace

bool counts_blocks(std::span<const ParamInfo> params) {
  return std::ranges::none_of(params, [](const ParamInfo& p) { return has_pieces(p.kind); });
}

int lay_out(std::vector<ParamInfo>& params) {
  int slot = 0, constant = 0;
  for (ParamInfo& p : params) {
    if (p.spelling.empty()) p.spelling = spelling(p.kind, info(p.element).name, p.extents);
    p.first_arg = p.is_constant() ? constant++ : slot;
    slot += p.num_args();
  }
  return slot + (counts_blocks(params) ? 1 : 0);
}

std::string kernel_label(const char* pretty_function) {
  const std::string_view text = pretty_function;
  const std::size_t at = text.find("K = ");
  if (at == std::string_view::npos) return "kernel";
  std::string readable(text.substr(at + 4));
  const std::string_view unnamed = "(anonymous namespace)::";  // clang's spelling; g++ writes {anonymous}::
  for (std::size_t i; (i = readable.find(unnamed)) != std::string::npos;) readable.erase(i, unnamed.size());
  std::string_view name = readable;
  if (name.find("lambda") != std::string_view::npos) return "lambda";
  // g++ writes the function's name, clang puts & before it; template arguments and namespaces are left out.
  while (!name.empty() && (name.front() == '&' || name.front() == '(')) name.remove_prefix(1);
  std::size_t end = 0, start = 0;
  for (; end < name.size(); ++end) {
    const char c = name[end];
    if (c == ':') start = end + 1;
    if (c == '<' || c == ';' || c == ']' || c == '(' || c == ')' || c == ',') break;
  }
  return std::string(name.substr(start, end - start));
}

std::string type_label(const char* pretty_function) {
  std::string_view name = pretty_function;
  const std::size_t at = name.find("T = ");
  if (at == std::string_view::npos) return "enum";
  name = name.substr(at + 4);
  name = name.substr(0, name.find_first_of(";]"));
  const std::size_t qualified = name.rfind("::");
  return std::string(qualified == std::string_view::npos ? name : name.substr(qualified + 2));
}

std::vector<ParamInfo> param_infos(const KernelBody& kernel) {
  std::vector<ParamInfo> infos;
  for (const ParamSpec& p : std::span(kernel.params, kernel.count)) {
    ParamInfo& made = infos.emplace_back(ParamInfo{p.kind, p.element, p.rank, {p.extents, p.extents + p.rank}, {}, 0});
    if (p.exact_sums) made.spelling = spelling(made.kind, "reproducible<f32>", std::span(made.extents).subspan(1));
    if (!made.is_constant()) continue;
    const bool is_enum = *p.enum_text != 0;
    made.spelling = concat("Constant<", is_enum ? type_label(p.enum_text) : info(p.element).name, ">");
  }
  return infos;
}

Trace trace(const KernelBody& kernel, const Specialization& specialization, SourceLocation where) {
  Recording recording(kernel_label(kernel.text), param_infos(kernel), specialization, where);
  recording.begin_body();
  kernel.run(recording);
  return recording.finish();
}

Recording::Recording(std::string name, std::vector<ParamInfo> params, const Specialization& specialization,
                     SourceLocation where)
    : impl_(std::make_unique<Impl>(symbol(name), where)) {
  Impl& s = *impl_;
  s.serial = next_serial();
  s.specialization = specialization;
  s.trace.name = std::move(name);
  s.trace.params = std::move(params);
  s.tracer.checked = specialization.checked;
  s.tracer.strict = specialization.strict;
  s.tracer.accuracy = specialization.accuracy_given ? specialization.accuracy : Accuracy::OfOutputs;
  std::size_t tensors = 0;
  int position = 0;
  lay_out(s.trace.params);
  for (const ParamInfo& p : s.trace.params) {
    s.tensor_of_param.push_back(-1);
    s.piece_of_param.push_back(-1);
    s.arguments.emplace_back();
    ++position;
    if (p.is_tensor()) {
      const TensorFacts facts =
          tensors < specialization.tensors.size() ? specialization.tensors[tensors] : TensorFacts{};
      ++tensors;
      s.add_tensor(p, position, facts);
    } else if (!p.is_constant()) {
      const Type element = Type::element(ints::elem_of(p.element));
      const Type type = p.kind == ParamKind::Scalar ? element : Type::pointer(element);
      s.arguments.back() = s.tracer.add_param(Type::tile(type, {}));
    }
  }
  if (counts_blocks(s.trace.params)) s.tracer.add_param(Type::tile(Elem::I32));
  outer_ = innermost;
  innermost = this;
  prepare();
}

Recording::~Recording() { innermost = outer_; }

Recording& Recording::current() {
  if (innermost == nullptr) {
    throw TraceError(concat("a kernel parameter was used outside a kernel", outside_kernel()));
  }
  return *innermost;
}

Recording::Impl& state() { return Recording::current().impl(); }

void Recording::Impl::add_tensor(const ParamInfo& p, int position, const TensorFacts& facts) {
  auto t = std::make_unique<TensorState>();
  t->number = static_cast<std::uint32_t>(tensors.size());
  t->param = &p;
  t->position = position;
  t->elem = ints::elem_of(p.element);
  t->rank = p.rank;
  t->unit_axis = facts.unit_axis < p.rank ? facts.unit_axis : -1;
  t->unit_dims = facts.unit_dims;
  t->long_dims = facts.long_dims;
  t->pointer = tracer.add_param(Type::tile(Type::pointer(Type::element(t->elem)), {}));
  const Type i64 = Type::tile(Elem::I64);
  for (int a = 0; a < p.rank; ++a) t->dims.push_back(tracer.add_param(i64));
  for (int a = 0; a < p.rank; ++a) t->strides.push_back(tracer.add_param(i64));
  const bool whole = p.kind == ParamKind::In || p.kind == ParamKind::Acc;
  t->extents = whole ? p.extents : std::vector<std::int64_t>(static_cast<std::size_t>(p.rank), kDyn);
  t->dims32.resize(static_cast<std::size_t>(p.rank));
  arguments.back() = t->pointer;
  tensor_of_param.back() = static_cast<int>(t->number);
  tensors.push_back(std::move(t));
}

TensorRef Recording::tensor(int param) const {
  const int number = impl_->tensor_of_param.at(static_cast<std::size_t>(param));
  if (number < 0) throw InternalError("a parameter that is not a tensor was used as one");
  return impl_->ref(*impl_->tensors[static_cast<std::size_t>(number)], false);
}
PieceRef Recording::piece(int param) const {
  const int number = impl_->piece_of_param.at(static_cast<std::size_t>(param));
  if (number < 0) throw InternalError("a parameter without a piece was used as one that has pieces");
  return impl_->ref(*impl_->pieces[static_cast<std::size_t>(number)], false);
}

TensorRef Recording::Impl::ref(const TensorState& t, bool inbounds) const { return {serial, t.number, inbounds}; }
PieceRef Recording::Impl::ref(const PieceState& p, bool inbounds) const { return {serial, p.number, inbounds}; }

Value Recording::argument(int param) const { return impl_->arguments[static_cast<std::size_t>(param)]; }
std::uint64_t Recording::constant(int param) const {
  const auto number = static_cast<std::size_t>(impl_->trace.params[static_cast<std::size_t>(param)].first_arg);
  const std::vector<std::uint64_t>& given = impl_->specialization.constants;
  return number < given.size() ? given[number] : 0;
}

TensorState& Recording::Impl::tensor(TensorRef ref) {
  if (ref.recording() != serial) {
    throw TraceError(
        "a kernel parameter was used in another kernel than its own; pass tensors as parameters of each kernel",
        tracer.location());
  }
  return *tensors[ref.number()];
}

TensorState& Recording::Impl::tensor(TensorRef ref, ParamKind kind) {
  TensorState& t = tensor(ref);
  if (t.param->kind != kind) {
    throw TraceError(concat(t.label(),
                            " was used as a parameter of another kind: it can be accessed only as what the "
                            "kernel declares; change the type of the parameter"),
                     tracer.location());
  }
  return t;
}

PieceState& Recording::Impl::piece(PieceRef ref) {
  if (ref.recording() != serial) {
    throw TraceError("a piece was used in another kernel than its own; pass tensors as parameters of each kernel",
                     tracer.location());
  }
  PieceState& p = *pieces[ref.number()];
  if (p.scheduled) tracer.check_alive(p.order.all);
  return p;
}

OrderTokens Recording::Impl::fresh_order() {
  const Value token = tracer.prologue().create(Op::MakeToken, {}, {Type::token()})->result();
  return {tracer.fresh(token), tracer.fresh(token), true};
}

TensorState* Recording::Impl::first_mut() const {
  for (std::size_t i = 0; i < piece_of_param.size(); ++i) {
    if (piece_of_param[i] >= 0) return tensors[static_cast<std::size_t>(tensor_of_param[i])].get();
  }
  return nullptr;
}

/// Everything that must exist before the kernel function is called; the order tokens first.
void Recording::prepare() {
  Impl& s = *impl_;
  s.tracer.prologue().loc = s.where;
  // They are not created at their first use, which may be inside a loop or branch that they outlive. Unused ones are
  // dead code.
  s.print_order = s.fresh_order().all;
  for (std::size_t i = 0; i < s.trace.params.size(); ++i) {
    const ParamInfo& p = s.trace.params[i];
    if (p.kind == ParamKind::UnsafePtr && !s.raw.used) s.raw = s.fresh_order();
    const bool piece = has_own_piece(p.kind);
    if (!has_pieces(p.kind)) continue;
    TensorState& t = *s.tensors[static_cast<std::size_t>(s.tensor_of_param[i])];
    t.order = s.fresh_order();
    if (!piece) continue;
    auto own = std::make_unique<PieceState>();
    own->number = static_cast<std::uint32_t>(s.pieces.size());
    own->tensor = &t;
    own->extents.assign(p.extents.begin(), p.extents.end());
    own->order = t.order;
    s.piece_of_param[i] = static_cast<int>(own->number);
    s.pieces.push_back(std::move(own));
    PieceState& made = *s.pieces.back();
    make_parts(s, made);
    for (const std::uint32_t part : made.parts) s.pieces[part]->order = s.fresh_order();
  }
}

void Recording::begin_body() {
  Impl& s = *impl_;
  TensorState* mut = s.first_mut();
  if (!s.specialization.wide_grid || mut == nullptr) return;
  const std::vector<int> extents(mut->param->extents.begin(), mut->param->extents.end());
  const Value pieces = total_tiles(*mut, extents);
  const Value inside = ints::below(s.tracer.prologue(), s.block_number(), pieces);
  s.tracer.open_if(inside, s.where);
  s.guarded = true;
}

Trace Recording::finish() {
  Impl& s = *impl_;
  if (s.guarded) s.tracer.close();
  s.trace.module = s.tracer.finish();
  return std::move(s.trace);
}

}  // namespace tessera::lang

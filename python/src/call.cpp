// The checks of a call's tensors, and the axes that functions see.
#include "call.hpp"

#include "tessera/base/format.hpp"

namespace tessera::python {

namespace {

std::string argument_text(const Function& f, int i) {
  return concat(f.name, ": argument ", i + 1, " (", parameter_name(f, i), ")");
}

/// The tensor with `rank` axes, new ones of 1 before its own.
Region with_leading_ones(const Region& r, int rank) {
  Region out = r;
  out.rank = rank;
  const int more = rank - r.rank;
  for (int a = 0; a < rank; ++a) {
    const auto to = static_cast<std::size_t>(a);
    out.dims[to] = a < more ? 1 : r.dims[to - static_cast<std::size_t>(more)];
    out.strides[to] = a < more ? 1 : r.strides[to - static_cast<std::size_t>(more)];
  }
  return out;
}

/// True if axes a and a + 1 of a tensor can be read as one, where the result has the extents `outer` and `inner`.
bool joins(const Region& r, std::size_t a, std::int64_t outer, std::int64_t inner) {
  if (r.dims[a] == 1 && r.dims[a + 1] == 1) return true;
  return r.dims[a] == outer && r.dims[a + 1] == inner && r.strides[a] == r.strides[a + 1] * inner;
}

void join(Region& r, std::size_t a) {
  r.dims[a] *= r.dims[a + 1];
  r.strides[a] = r.strides[a + 1];
  for (std::size_t b = a + 1; b + 1 < static_cast<std::size_t>(r.rank); ++b)
    r.dims[b] = r.dims[b + 1], r.strides[b] = r.strides[b + 1];
  --r.rank;
}

}  // namespace

std::string names_of(std::span<const ElementType> elements) {
  std::string names;
  for (std::size_t k = 0; k < elements.size(); ++k)
    names += concat(k == 0 ? "" : k + 1 == elements.size() ? " or " : ", ", info(elements[k]).name);
  return names;
}

void Call::check_rank(int i, int rank) const {
  if (tensor(i).rank == rank) return;
  throw ShapeError(concat(argument_text(function_, i), " has the extents ", detail::extents_text(tensor(i).shape()),
                          "; expected ", rank, rank == 1 ? " axis." : " axes.", "\n  Reshape it."),
                   kNowhere);
}

void Call::check_element(int i, ElementType wanted) const {
  if (tensor(i).element == wanted) return;
  const bool common = wanted == leading_element();
  throw ElementError(
      concat(argument_text(function_, i), " has elements of ", info(tensor(i).element).name, "; expected ",
             info(wanted).name, common ? ", as the other arguments have.\n  Convert one of them." : ".\n  Convert it."),
      kNowhere);
}

void Call::wrong_element(int i, std::span<const ElementType> wanted) const {
  throw ElementError(concat(argument_text(function_, i), " has elements of ", info(tensor(i).element).name,
                            "; expected ", names_of(wanted), ".\n  Convert it."),
                     kNowhere);
}

void Call::expect_same_extents(int i, int other) const {
  if (dims(i) == dims(other)) return;
  throw ShapeError(concat(argument_text(function_, i), " has the extents ", detail::extents_text(tensor(i).shape()),
                          "; expected those of argument ", other + 1, " (", parameter_name(function_, other), "), ",
                          detail::extents_text(tensor(other).shape()), "."),
                   kNowhere);
}

Region Call::as_rows(int i) const {
  Region r = tensor(i);
  if (r.rank == 0) check_rank(i, 1);
  if (r.rank == 1) return with_leading_ones(r, 2);
  while (r.rank > 2) {
    const bool none = r.dims[0] == 0 || r.dims[1] == 0;
    if (r.dims[0] == 1)
      r.strides[0] = r.strides[1] * r.dims[1];  // of one element: any stride
    else if (r.dims[1] == 1)
      r.strides[1] = r.strides[0];
    if (!none && r.strides[0] != r.strides[1] * r.dims[1]) {
      throw ShapeError(concat(argument_text(function_, i), " has the extents ", detail::extents_text(tensor(i).shape()),
                              " and the strides ", detail::extents_text(tensor(i).steps()),
                              ": its axes before the last cannot be read as one.\n  Make a contiguous copy."),
                       kNowhere);
    }
    join(r, 0);
  }
  return r;
}

void Call::join_axes() {
  int rank = 4;
  for (const Region& t : tensors_) rank = std::max(rank, t.rank);
  std::vector<std::int64_t> common(static_cast<std::size_t>(rank), 1);
  joined_.clear();
  int result_rank = 0;
  for (int i = 0; i < tensors(); ++i) {
    joined_.push_back(with_leading_ones(tensor(i), rank));
    result_rank = std::max(result_rank, tensor(i).rank);
    for (std::size_t a = 0; a < common.size(); ++a) {
      const std::int64_t d = joined_.back().dims[a];
      if (d != common[a] && d != 1 && common[a] != 1) {
        throw ShapeError(concat(argument_text(function_, i), " has the extents ",
                                detail::extents_text(tensor(i).shape()), ", and argument 1 (",
                                parameter_name(function_, 0), ") has ", detail::extents_text(tensor(0).shape()),
                                ": counted from the last, axes must be equally long, or 1."),
                         kNowhere);
      }
      if (common[a] == 1) common[a] = d;
    }
  }
  broadcast_.assign(common.end() - result_rank, common.end());
  for (std::size_t a = 0; a + 1 < common.size() && common.size() > 4;) {
    const bool all = std::all_of(joined_.begin(), joined_.end(),
                                 [&](const Region& r) { return joins(r, a, common[a], common[a + 1]); });
    if (!all || common[a] * common[a + 1] > kMaxExtent) {
      ++a;
      continue;
    }
    for (Region& r : joined_) join(r, a);
    common[a] *= common[a + 1];
    common.erase(common.begin() + static_cast<std::ptrdiff_t>(a) + 1);
  }
  if (common.size() > 4) {
    throw ShapeError(concat(function_.name, ": the arguments have ", result_rank,
                            " axes of which more than 4 cannot be read as one.\n  Make contiguous copies, or reshape."),
                     kNowhere);
  }
}

void Call::keep_layout(const detail::LayoutRef& made, std::span<const std::int64_t> dims) {
  if (detail::element_count(dims, kNowhere) != made.size() || !made.contiguous())
    throw InternalError(concat("the result of ", function_.name, " has the extents ", detail::extents_text(made.dims),
                               ", which are not those of ", detail::extents_text(dims)));
  auto array = std::make_unique<Array>();
  array->offset = made.offset;
  Region& r = array->region;
  r.storage = *made.storage;
  r.element = made.element;
  r.rank = static_cast<int>(dims.size());
  std::copy(dims.begin(), dims.end(), r.dims.begin());
  detail::set_contiguous(r.shape(), {r.strides.data(), dims.size()});
  results_.push_back(std::move(array));
}

std::span<const Function> all_functions() {
  static const std::vector<Function> all = [] {
    std::vector<Function> list;
    for (const auto& part : {unary_functions(), binary_functions(), row_functions(), reduction_functions(),
                             conversion_functions(), product_functions(), attention_functions(),
                             attention_gradient_functions(), row_gradient_functions(), loss_functions()})
      list.insert(list.end(), part.begin(), part.end());
    return list;
  }();
  return all;
}

}  // namespace tessera::python

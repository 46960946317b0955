// One kernel while it is being recorded: its tensors, its block number, its requirements. Parameter objects (In, Mut,
// ...) are thin handles to it; everything that needs no template is in the functions of access.hpp.
#pragma once
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "tessera/lang/handles.hpp"
#include "tessera/lang/trace.hpp"

namespace tessera::lang {

class Recording {
 public:
  /// Starts recording on this thread: creates the entry's arguments for `params` (first_arg and spelling are filled
  /// in).
  Recording(std::string name, std::vector<ParamInfo> params, const Specialization&, SourceLocation where);
  ~Recording();
  Recording(const Recording&) = delete;
  Recording& operator=(const Recording&) = delete;

  TensorRef tensor(int param) const;        ///< parameter `param`, which is a tensor; InternalError if it is none
  PieceRef piece(int param) const;          ///< parameter `param`, which is a Mut or unsafe_::Mut; same
  ir::Value argument(int param) const;      ///< parameter `param`, which is a Scalar or a pointer
  std::uint64_t constant(int param) const;  ///< bits of parameter `param`, which is a Constant

  /// Called when the parameter objects exist, and when the kernel function has returned.
  void begin_body();
  Trace finish();

  struct Impl;
  Impl& impl() { return *impl_; }

 private:
  /// Not for kernels: it gives references to their tensors.
  friend Impl& state();
  /// The innermost recording of this thread; throws TraceError outside a kernel.
  static Recording& current();
  void prepare();
  std::unique_ptr<Impl> impl_;
  Recording* outer_ = nullptr;
};

/// The readable name of a kernel out of the compiler's text for `trace<K>` (a label only: compilers differ).
std::string kernel_label(const char* pretty_function);
/// The readable name of a type out of the compiler's text for a function template of it (a label only).
std::string type_label(const char* pretty_function);

}  // namespace tessera::lang

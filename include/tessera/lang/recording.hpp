// One kernel while it is being recorded: its tensors, its block number, its requirements. Parameter objects (In, Mut,
// ...) are thin handles into it; everything that needs no template lives behind the functions of access.hpp.
#pragma once
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "tessera/lang/trace.hpp"

namespace tessera::lang {

/// Names a tensor of one recording. Using it in another recording, or after its own, is a TraceError.
struct TensorRef {
  std::uint32_t recording = 0;
  std::uint32_t number = 0;
  bool inbounds = false;  ///< accesses through it claim to be inside (unsafe_::assume_inbounds)
};

/// Names one block's piece of a mutable tensor.
struct PieceRef {
  std::uint32_t recording = 0;
  std::uint32_t number = 0;
  bool inbounds = false;  ///< same
};

class Recording {
 public:
  /// Starts recording on this thread: creates the entry's arguments for `params` (first_arg and spelling are filled
  /// in).
  Recording(std::string name, std::vector<ParamInfo> params, const Specialization&, SourceLocation where);
  ~Recording();
  Recording(const Recording&) = delete;
  Recording& operator=(const Recording&) = delete;

  /// The innermost recording of this thread; throws TraceError outside a kernel.
  static Recording& current();

  TensorRef tensor(int param) const;    ///< parameter `param`, which is a tensor
  PieceRef piece(int param) const;      ///< parameter `param`, which is a Mut or unsafe_::Mut
  ir::Value argument(int param) const;  ///< parameter `param`, which is a Scalar or a pointer

  /// To be called when the parameter objects exist and when the kernel function has returned.
  void begin_body();
  Trace finish();

  struct Impl;
  Impl& impl() { return *impl_; }

 private:
  void prepare();
  std::unique_ptr<Impl> impl_;
  Recording* outer_ = nullptr;
};

/// The readable name of a kernel out of the compiler's text for `trace<K>` (a label only: compilers differ).
std::string kernel_label(const char* pretty_function);

}  // namespace tessera::lang

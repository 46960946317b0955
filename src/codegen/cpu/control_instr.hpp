// Control flow. Regions are nested code; how a region was left is the status it returns.
#pragma once
#include "codegen/cpu/memory_instr.hpp"

namespace tessera::cpu {

class ForInstr final : public Instr {
 public:
  Code body;
  Ref lower, upper, step, induction;
  ir::Elem elem = ir::Elem::I32;
  bool is_unsigned = false;
  SourceLocation where;
  Status run(Frame&) const override;
  std::vector<Code*> children() override { return {&body}; }
  bool is_loop() const override { return true; }
};

class LoopInstr final : public Instr {
 public:
  Code body;
  Status run(Frame&) const override;
  std::vector<Code*> children() override { return {&body}; }
  bool is_loop() const override { return true; }
};

class IfInstr final : public Instr {
 public:
  Code then_code, else_code;
  Ref condition;
  Status run(Frame&) const override;
  std::vector<Code*> children() override { return {&then_code, &else_code}; }
};

class LeaveInstr final : public Instr {
 public:
  explicit LeaveInstr(Status how) : how_(how) {}
  Status run(Frame&) const override { return how_; }

 private:
  Status how_;
};

class AssertInstr final : public Instr {
 public:
  Ref condition;
  std::vector<std::int64_t> shape, stride;  ///< stride in bytes
  std::string message;
  SourceLocation where;
  Status run(Frame&) const override;
};

class PrintInstr final : public Instr {
 public:
  struct Argument {
    Ref ref;  ///< dense
    std::vector<std::int64_t> shape;
    ir::Elem elem;
    bool pointer;
  };
  std::string format;
  std::vector<Argument> arguments;
  Status run(Frame&) const override;
};

/// One line of a failed check or violation: "kernel saxpy: <what>" as a DeviceError at the kernel's source line.
[[noreturn]] void throw_device_error(const Frame&, const std::string& what, SourceLocation);

}  // namespace tessera::cpu

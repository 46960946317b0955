// print, check and require: messages of a kernel to the host.
#include "tessera/lang/reports.hpp"
#include "lang/recording_impl.hpp"
#include "tessera/base/error.hpp"
#include "tessera/base/format.hpp"

namespace tessera::lang {

using ir::AttrName;
using ir::Elem;
using ir::Op;
using ir::Type;
using ir::Value;

namespace {

struct Printable {
  Value value;
  const char* format;
};

/// Widened to what C's printf takes.
Printable printable(ir::Builder& b, const PrintArgument& a) {
  const bool is_signed = info(a.type).cls == ElementClass::Signed;
  const int bits = ir::info(a.value.type().elem()).bits;
  if (a.value.type().is_float()) {
    const Elem e = a.value.type().elem();
    if (e == Elem::F32 || e == Elem::F64) return {a.value, "%g"};
    return {b.create(Op::FToF, {a.value}, {a.value.type().with_element(Elem::F32)})->result(), "%g"};
  }
  if (bits == 64) return {a.value, is_signed ? "%lld" : "%llu"};
  return {ints::extend(b, a.value, Elem::I32, is_signed), is_signed || bits == 1 ? "%d" : "%u"};
}

}  // namespace

void print_tiles(std::string_view format, std::span<const PrintArgument> arguments, SourceLocation loc) {
  Recording::Impl& s = state();
  ir::Builder& b = s.tracer.at(loc);
  std::string text;
  std::vector<Value> operands;
  for (std::size_t i = 0; i < format.size(); ++i) {
    const char c = format[i];
    const char next = i + 1 < format.size() ? format[i + 1] : '\0';
    if (c == '{' && next == '}') {
      const Printable p = printable(b, arguments[operands.size()]);
      text += p.format;
      operands.push_back(p.value);
      ++i;
    } else if ((c == '{' || c == '}') && next == c) {
      text += c;
      ++i;
    } else {
      text += c;
      if (c == '%') text += '%';
    }
  }
  if (text.empty() || text.back() != '\n') text += '\n';
  const auto count = static_cast<std::uint32_t>(operands.size());
  operands.push_back(s.tracer.read(s.print_order));
  const std::uint32_t groups[] = {count, 1};
  const Type types[] = {Type::token()};
  ir::Operation* print =
      s.tracer.at(loc).create_grouped(Op::PrintTko, operands, groups, types, {{AttrName::str, text}});
  s.tracer.write(s.print_order, print->result());
}

void check_tile(Value condition, std::string_view message, SourceLocation loc) {
  state().tracer.at(loc).create(Op::Assert, {condition}, {}, {{AttrName::message, std::string(message)}});
}

void check_while_recording(bool condition, std::string_view message, SourceLocation loc) {
  if (!condition) throw TraceError(concat("check failed while the kernel was recorded: ", message), loc);
}

void require_value(Value condition, std::string_view message, SourceLocation loc) {
  std::string why;
  auto program = ir::ScalarProgram::extract(condition, &why);
  if (!program) {
    throw TraceError(
        concat("require(\"", message,
               "\") is evaluated on the host before the launch, so its condition may use dimensions, strides, scalar "
               "parameters and constants only; found ",
               why, ". For values known on the device use check"),
        loc);
  }
  state().trace.requirements.push_back({std::move(*program), std::string(message), loc});
}

void require_while_recording(bool condition, std::string_view message, SourceLocation loc) {
  if (!condition) throw ShapeError(std::string(message), loc);
}

}  // namespace tessera::lang

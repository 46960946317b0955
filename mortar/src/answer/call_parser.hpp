// The inside of <tool_call> ... </tool_call>, as it comes. A call begins as soon as its name is certain; from then on
// its arguments are given piece by piece. What turns out to be no call before that is text.
#pragma once
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "text/json_tree.hpp"

namespace mortar::answer {

inline constexpr std::string_view kCallTag = "<tool_call>", kEndCallTag = "</tool_call>";

/// How a model writes calls.
enum class CallFormat : std::uint8_t {
  None,  ///< no tools: what looks like a call is text
  Json,  ///< {"name": "f", "arguments": {...}}
  Xml,   ///< <function=f> <parameter=key> value </parameter> </function>
};

/// The format that a chat template shows to the model: Xml if its text has "<function=", else Json.
CallFormat format_of_template(std::string_view source);

/// The JSON types that a parameter may have, by its schema; all false: not known.
struct ParameterTypes {
  bool string = false, number = false, boolean = false, null = false, container = false;
};
/// A tool's parameters, as the Xml format needs them, whose values are text.
struct ToolTypes {
  std::string name;
  std::map<std::string, ParameterTypes, std::less<>> parameters;
};
/// `schema`: the JSON schema of the tool's parameters; nullptr: none.
ToolTypes tool_types(std::string name, const text::Json* schema);
/// A value of the Xml format as JSON, by the types of its parameter.
std::string typed_value(std::string_view text, const ParameterTypes& types);

/// Where a parser puts what it finds.
class CallOutput {
 public:
  virtual void begin_call(std::string name) = 0;
  virtual void arguments(std::string_view piece) = 0;
  virtual void end_call() = 0;
  virtual void text(std::string_view piece) = 0;  ///< what is no call
 protected:
  ~CallOutput() = default;
};

enum class Ending : std::uint8_t { Tag, Answer };  ///< the end tag; the answer ends within the call

/// Parses what stands between two tags; made anew for each <tool_call>.
class CallParser {
 public:
  virtual ~CallParser() = default;
  virtual void push(std::string_view text, CallOutput& out) = 0;
  virtual void end(Ending ending, CallOutput& out) = 0;
  /// Within a string or a parameter's value, where tags may be text.
  virtual bool in_value() const = 0;
};

std::unique_ptr<CallParser> json_call_parser();
/// `tools` must outlive the parser.
std::unique_ptr<CallParser> xml_call_parser(const std::vector<ToolTypes>& tools);

}  // namespace mortar::answer

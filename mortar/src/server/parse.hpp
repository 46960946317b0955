// Bodies of requests to their types. All functions throw ApiError (400) with the path of the field.
#pragma once
#include <string_view>
#include <vector>

#include "server/fields.hpp"
#include "server/plain_text.hpp"
#include "server/request.hpp"
#include "text/json_writer.hpp"

namespace mortar::server {

struct ParseContext {
  RequestLimits limits;
  const PlainText* plain = nullptr;
  answer::CallFormat calls = answer::CallFormat::Json;
};

/// The tree of a body; `body` must outlive it.
text::Json parse_body(std::string_view body);

ChatRequest parse_chat(const text::Json& body, const ParseContext& context);
CompletionRequest parse_completion(const text::Json& body, const ParseContext& context);
/// POST /v1/responses and /v1/messages, as the chat that they mean.
ChatRequest parse_response(const text::Json& body, const ParseContext& context);
ChatRequest parse_message(const text::Json& body, const ParseContext& context);

// Parts of these.
void parse_generation(Fields& fields, const ParseContext& context, Generation& out);
void parse_sampling(Fields& fields, const ParseContext& context, Generation& out);
/// max_tokens; the first of `names` that is given.
void parse_max_tokens(Fields& fields, std::initializer_list<const char*> names, Generation& out);
void parse_stop(const text::Json& value, const std::string& path, const ParseContext& context, Generation& out);
/// The format that is an object in the field `field` of messages and responses: one of `types`, which an error lists as
/// `expected`.
void parse_format(Fields& fields, const char* field, std::initializer_list<const char*> types, const char* expected,
                  Generation& out);
/// How a route writes texts that may come in parts.
struct TextParts {
  const char* whole;                    ///< what is expected where neither a string nor an array is found
  std::vector<std::string_view> types;  ///< of parts
  const char* expected;                 ///< where a part has another type
};
/// A string, or an array of parts that are text, which are joined by line ends.
std::string joined_text(const text::Json& content, const std::string& path, const TextParts& parts);
/// `schema` is an object or a boolean.
void set_schema(const text::Json& schema, const std::string& path, Generation& out);

/// Writes the messages that a template gets.
class MessageWriter {
 public:
  explicit MessageWriter(const ParseContext& context) : context_(context), json_(out_) { json_.array(); }
  struct Call {
    std::string id, name, arguments;  // `arguments` is JSON
    std::string path;                 // of the arguments
  };
  void text(std::string_view role, std::string_view content);
  void assistant(std::string_view content, bool has_content, std::string_view thinking, const std::vector<Call>& calls);
  void tool(std::string_view id, std::string_view content);
  bool empty() const { return count_ == 0; }
  std::string take();

 private:
  const ParseContext& context_;
  std::string out_;
  text::JsonWriter json_;
  std::size_t count_ = 0;
};

/// Collects tools in OpenAI's form, with what the calls need of them.
class ToolWriter {
 public:
  explicit ToolWriter(const ParseContext& context) : context_(context), json_(out_) { json_.array(); }
  /// `parameters`: a JSON schema; nullptr: none.
  void add(const std::string& name, std::optional<std::string> description, const text::Json* parameters,
           const std::string& path);
  void finish(ChatRequest& request);
  bool empty() const { return types_.empty(); }
  bool has(std::string_view name) const;

 private:
  const ParseContext& context_;
  std::string out_;
  text::JsonWriter json_;
  std::vector<answer::ToolTypes> types_;
};

/// The JSON of `value`, with names of added tokens in its strings marked.
void write_marked(const text::Json& value, const PlainText& plain, text::JsonWriter& out);

}  // namespace mortar::server

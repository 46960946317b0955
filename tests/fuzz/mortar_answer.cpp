// The answer of a model as thinking, content and calls: the same however it is cut.
#include "answer/answer_machine.hpp"
#include "fuzz/fuzz.hpp"
#include "fuzz/small_tokenizer.hpp"
#include "text/json_tree.hpp"
#include "text/utf8.hpp"

namespace tessera::fuzz {
namespace {

using namespace mortar::answer;
namespace text = mortar::text;

constexpr unsigned char kFirstTag = 0xF8;  // bytes from here are the four tags; no UTF-8 text has them

struct Joined {
  std::string thinking, content, stop;
  std::vector<std::pair<std::string, std::string>> calls;
  bool stopped = false, open = false;
  bool operator==(const Joined&) const = default;

  void take(Events& events) {
    for (const Event& e : events) {
      FUZZ_REQUIRE(text::valid_utf8(e.text) == e.text.size());
      FUZZ_REQUIRE(e.text.empty() == (e.kind == EventKind::CallEnd));
      switch (e.kind) {
        case EventKind::Thinking: thinking += e.text; break;
        case EventKind::Content: content += e.text; break;
        case EventKind::CallBegin:
          FUZZ_REQUIRE(!open && e.call == std::ssize(calls));
          calls.emplace_back(e.text, "");
          open = true;
          break;
        case EventKind::Arguments:
        case EventKind::CallEnd:
          FUZZ_REQUIRE(open && e.call + 1 == std::ssize(calls));
          calls.back().second += e.text;
          open = e.kind == EventKind::Arguments;
          break;
      }
    }
    events.clear();
  }
};

/// `step`: bytes that come at a time; an increment ends after each `often` pieces.
Joined joined(Bytes answer, const MachineOptions& options, std::size_t step, std::size_t often) {
  AnswerMachine machine(small_tokenizer(), options);
  Joined out;
  Events events;
  const std::string_view all = text_of(answer);
  std::size_t pieces = 0;
  for (std::size_t at = 0; at < all.size();) {
    const auto byte = static_cast<unsigned char>(all[at]);
    if (byte >= kFirstTag && byte < kFirstTag + 4) {
      machine.push_tag(static_cast<AnswerMachine::Tag>(byte - kFirstTag), events);
      ++at;
    } else {
      std::size_t n = 1;
      while (n < step && at + n < all.size() &&
             (static_cast<unsigned char>(all[at + n]) < kFirstTag ||
              static_cast<unsigned char>(all[at + n]) >= kFirstTag + 4))
        ++n;
      machine.push_bytes(all.substr(at, n), events);
      at += n;
    }
    if (++pieces % often == 0) out.take(events);
  }
  out.stopped = machine.stopped();
  out.stop = machine.stop_string();
  machine.finish(events);
  out.take(events);
  FUZZ_REQUIRE(!out.open || out.stopped);
  FUZZ_REQUIRE(machine.calls() == std::ssize(out.calls));
  return out;
}

}  // namespace

/// Two bytes of options, the answer.
void fuzz_mortar_answer(Bytes bytes) {
  static const text::Json schema = text::parse_json(
      R"({"properties": {"a": {"type": "string"}, "b": {"type": "integer"}, "c": {"type": ["object", "null"]}}})",
      "schema");
  static const std::string stops[] = {"STOP", "\n\n", "ab", "}"};
  Input in(bytes);
  const auto kinds = in.number<std::uint8_t>(), flags = in.number<std::uint8_t>();
  MachineOptions options;
  options.calls = static_cast<CallFormat>(kinds % 3);
  options.tools = {tool_types("f", &schema)};
  options.thinking = static_cast<Thinking>(kinds / 3 % 3);
  if ((flags & 1) != 0) options.stop = {stops[flags >> 6]};
  options.keep_stop = (flags & 2) != 0;
  options.one_call = (flags & 4) != 0;
  options.text_tags = (flags & 8) != 0;
  const Joined whole = joined(in.rest(), options, SIZE_MAX, 1);
  FUZZ_REQUIRE(joined(in.rest(), options, 1, 1) == whole);
  FUZZ_REQUIRE(joined(in.rest(), options, 3, 2) == whole);
  FUZZ_REQUIRE(joined(in.rest(), options, 2, SIZE_MAX) == whole);
}

Seeds seeds_mortar_answer() {
  const std::string json = "\n{\"name\": \"f\", \"arguments\": {\"a\": \"x\\\"}\", \"b\": [1, 2.5e3, null]}}\n";
  const std::string xml =
      "\n<function=f>\n<parameter=a>\nx < y\n</parameter>\n<parameter=b>\n12\n</parameter>\n</function>\n";
  return {
      std::string("\1\0", 2) + "text \xFA" + json + "\xFB\n\xFA" + json + "\xFB",
      std::string("\2\0", 2) + "\xF8\nthinking\n\xF9\n\nanswer\xFA" + xml + "\xFB",
      std::string("\4\1") + "\nthought \xE4\xBD\xA0\xF9\n\nbefore STOP after",
      std::string("\7\6") + "\xFA{\"arguments\": \"{\\\"a\\\": 1}\", \"name\": \"f\"}\xFB rest",
      std::string("\1\10") + "<think>a</think><tool_call>{\"name\":\"f\"}</tool_call>",
      std::string("\5\103") + "a\n\nb\xFA no call \xFB\xFA{\"name\": \"f\", \"arguments\": {\"k\": \"",
  };
}

}  // namespace tessera::fuzz

// What an answer is made of, in its order: pieces of thinking, of content, and of calls of tools.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

namespace mortar::answer {

enum class EventKind : std::uint8_t {
  Thinking,   ///< more text of the thinking
  Content,    ///< more text of the answer
  CallBegin,  ///< a call begins; the text is the whole name of the function
  Arguments,  ///< more of the call's arguments, which together are JSON
  CallEnd,    ///< no more arguments come; without text
};

struct Event {
  EventKind kind;
  std::int64_t call = -1;  ///< of calls: counted from 0
  std::string text;        ///< UTF-8, whole characters
};
using Events = std::vector<Event>;

/// Adds a piece; pieces of one kind that follow each other become one.
inline void append(Events& events, EventKind kind, std::int64_t call, std::string text) {
  const bool joins = !events.empty() && events.back().kind == kind && events.back().call == call &&
                     (kind == EventKind::Thinking || kind == EventKind::Content || kind == EventKind::Arguments);
  if (joins)
    events.back().text += text;
  else
    events.push_back({kind, call, std::move(text)});
}

}  // namespace mortar::answer

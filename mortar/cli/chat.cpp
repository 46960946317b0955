// mortar chat: a conversation on the terminal.
#include <unistd.h>

#include <cstdio>
#include <iostream>

#include "interrupt.hpp"
#include "model_session.hpp"
#include "mortar/chat_template.hpp"

namespace mortar::cli {
namespace THIS_FILE {

/// A message: lines up to one that does not end with a backslash. None at the end of the input.
std::optional<std::string> read_message(bool terminal) {
  std::string message, line;
  bool more = false;
  do {
    if (terminal) std::fputs(more ? ". " : "> ", stderr);
    if (!std::getline(std::cin, line)) {
      if (message.empty()) return std::nullopt;
      break;
    }
    if (line.ends_with('\r')) line.pop_back();
    more = line.ends_with('\\');
    if (more) line.back() = '\n';
    message += line;
  } while (more);
  return message;
}

class Chat {
 public:
  explicit Chat(const Arguments& arguments)
      : arguments_(arguments), engine_(open_engine(arguments)), template_(ChatTemplate::load(engine_.model().folder)) {
    if (arguments.has("--system")) messages_.push_back({"system", arguments.text("--system")});
    first_ = messages_.size();
  }

  void clear() { messages_.resize(first_); }
  /// Prints the answer as it comes. Ctrl-C ends it; what came until then is part of the conversation.
  void answer(std::string message);

 private:
  static Engine open_engine(const Arguments& arguments) {
    Model model = open_model(arguments, 1);
    if (!model.tokenizer) throw RequestError("chat needs the model's tokenizer.json");
    return Engine(std::move(model), {.max_batch = 1, .strict = arguments.flag("--strict")});
  }
  Request request() const;

  const Arguments& arguments_;
  Engine engine_;
  ChatTemplate template_;
  std::vector<ChatMessage> messages_;
  std::size_t first_ = 0;
};

Request Chat::request() const {
  ChatInputs inputs;
  inputs.messages = messages_json(messages_);
  inputs.thinking = thinking_from(arguments_);
  const std::string text = template_.render(inputs);
  Request r;
  r.ids = engine_.model().tokenizer->encode(text);
  r.starts_thinking = ends_thinking(text);
  r.sampling = sampling_from(arguments_, engine_.model().generation);
  r.stop = arguments_.all("--stop");
  r.ignore_eos = arguments_.flag("--ignore-eos");
  const std::int64_t left = engine_.model().plan.max_context - std::ssize(r.ids);
  if (left < 1)
    throw RequestError("the conversation has " + std::to_string(r.ids.size()) + " tokens, and the context " +
                       std::to_string(engine_.model().plan.max_context) + ": /clear begins a new one");
  r.max_tokens = std::min(left, max_tokens_from(arguments_).value_or(left));
  return r;
}

void Chat::answer(std::string message) {
  messages_.push_back({"user", std::move(message)});
  const bool terminal = isatty(STDOUT_FILENO) != 0;
  std::string content;
  std::int64_t tokens = 0;
  double first = 0;
  Channel channel = Channel::Content;
  const Clock clock;
  SequenceId id = 0;
  try {
    id = engine_.submit(request(), [&](const Token& token) {
      if (token.finish == FinishReason::Failed) throw ModelError(token.error);
      if (tokens++ == 0) first = clock.seconds();
      for (const AnswerText& part : token.text) {
        const bool thinking = part.channel == Channel::Thinking;
        if (part.channel != channel && terminal)
          put(stdout, thinking ? "\033[2m" : "\033[0m\n\n");
        else if (part.channel != channel)
          report(arguments_, "\n");
        channel = part.channel;
        if (!thinking) content += part.text;
        if (terminal || !thinking)
          put(stdout, part.text);
        else if (!arguments_.quiet())
          put(stderr, part.text);
      }
    });
  } catch (...) {
    messages_.pop_back();
    throw;
  }
  set_closing(terminal ? "\033[0m\n" : "\n");
  while (engine_.step())
    if (CtrlC::count() > 0) engine_.cancel(id);
  set_closing(nullptr);
  put(stdout, terminal && channel == Channel::Thinking ? "\033[0m\n" : "\n");
  messages_.push_back({"assistant", content});
  const double seconds = clock.seconds() - first;
  report(arguments_, "[%lld tokens, first after %.0f ms, %.1f tok/s%s]\n", static_cast<long long>(tokens), first * 1e3,
         seconds > 0 && tokens > 1 ? static_cast<double>(tokens - 1) / seconds : 0.0,
         CtrlC::count() > 0 ? ", stopped" : "");
}

int run(const Arguments& arguments) {
  check_generation_options(arguments);
  Chat chat(arguments);
  const bool terminal = isatty(STDIN_FILENO) != 0 && !arguments.quiet();
  if (terminal)
    std::fputs("A line that ends with \\ goes on in the next one. /clear begins a new conversation, /exit ends.\n",
               stderr);
  const CtrlC counted(1);  // a second one ends the program
  bool failed = false;
  for (;;) {
    CtrlC::reset();
    const auto message = read_message(terminal);
    if (CtrlC::count() > 0) throw Interrupted();
    if (!message || *message == "/exit") return failed && isatty(STDIN_FILENO) == 0 ? kFailed : kDone;
    if (*message == "/clear") {
      chat.clear();
      continue;
    }
    if (message->empty()) continue;
    try {
      chat.answer(*message);
    } catch (const RequestError& error) {
      set_closing(nullptr);
      std::fprintf(stderr, "mortar chat: %s\n", error.what());
      failed = true;
    }
  }
}

const Registration kRegistration({"chat", "MODEL", "a conversation on the terminal", {}, OptionSet::Generation, run});

}  // namespace THIS_FILE
}  // namespace mortar::cli

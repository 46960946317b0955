// mortar chat: a conversation on the terminal.
#include <unistd.h>

#include <cstdio>
#include <optional>
#include <string>

#include "closest.hpp"
#include "interrupt.hpp"
#include "line_reader.hpp"
#include "model_session.hpp"
#include "mortar/chat_template.hpp"

namespace mortar::cli {
namespace THIS_FILE {

/// A message: lines up to one that does not end with a backslash. None at the end of the input.
std::optional<std::string> read_message(LineReader& lines) {
  std::string message;
  bool more = false;
  do {
    std::optional<std::string> line = lines.read(more ? ". " : "> ");
    if (!line) {
      if (message.empty() || CtrlC::count() > 0) return std::nullopt;
      break;
    }
    more = line->ends_with('\\');
    if (more) line->back() = '\n';
    message += *line;
  } while (more);
  if (!message.empty()) lines.remember(message);
  return message;
}

struct ChatCommand {
  const char *name, *help;
};
constexpr ChatCommand kChatCommands[] = {
    {"/help", "this list"},
    {"/clear", "begins a new conversation"},
    {"/exit", "ends the program, as Ctrl-D does"},
};

std::string chat_commands() {
  std::string text;
  for (const ChatCommand& c : kChatCommands) {
    std::string name = c.name;
    name.resize(8, ' ');
    text += "  " + name + c.help + "\n";
  }
  return text +
         "A line that ends with \\ goes on in the next one. A message that begins with / has a space before it.\n";
}

/// The first word of a message if it looks like a command: a slash and letters, as "/clear", but no path
/// ("/etc/hosts"), and none of the words by which Qwen3 is told whether to think. Empty: it is none.
std::string command_word(const std::string& message) {
  const std::string word = message.substr(0, message.find_first_of(" \t\n"));
  const bool letters = word.find_first_not_of("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ_-", 1) == word.npos;
  if (word.size() < 2 || word[0] != '/' || !letters || word == "/think" || word == "/no_think") return {};
  return word;
}

/// Why an answer whose length has ended it is as long as it is.
std::string cut_text(std::int64_t tokens, std::int64_t room, const MemoryPlan& plan) {
  if (tokens < room) return "cut: the answer has all tokens of --max-tokens";
  return "cut: the context of " + std::to_string(plan.max_context) +
         " tokens is full; /clear begins a new conversation";
}

class Chat {
 public:
  explicit Chat(const Arguments& arguments) : arguments_(arguments), engine_(open_engine(arguments, template_)) {
    if (arguments.has("--system")) messages_.push_back({"system", arguments.text("--system")});
    first_ = messages_.size();
  }

  void clear() { messages_.resize(first_); }
  /// Prints the answer as it comes. Ctrl-C ends it; what came until then is part of the conversation.
  void answer(std::string message);

 private:
  static Engine open_engine(const Arguments& arguments, std::optional<ChatTemplate>& chat_template) {
    const EngineOptions options{.max_batch = 1, .strict = arguments.flag("--strict")};
    Opening opening;
    opening.before_weights = [&](const Model& model) {
      check(options, model);
      if (!model.tokenizer) throw RequestError("chat needs the model's tokenizer.json");
      chat_template = ChatTemplate::load(model.folder);
    };
    return Engine(open_model(arguments, opening), options);
  }
  /// The tokens that the context has behind the prompt.
  std::int64_t room(const Request& request) const { return engine_.model().plan.max_context - std::ssize(request.ids); }
  Request request() const;

  const Arguments& arguments_;
  std::optional<ChatTemplate> template_;  ///< before the engine, which is made after it
  Engine engine_;
  std::vector<ChatMessage> messages_;
  std::size_t first_ = 0;
};

Request Chat::request() const {
  ChatInputs inputs;
  inputs.messages = messages_json(messages_);
  inputs.thinking = thinking_from(arguments_);
  const std::string text = template_->render(inputs);
  Request r;
  r.ids = engine_.model().tokenizer->encode(text);
  r.starts_thinking = ends_thinking(text);
  r.sampling = sampling_from(arguments_, engine_.model().generation);
  r.stop = arguments_.all("--stop");
  r.ignore_eos = arguments_.flag("--ignore-eos");
  const std::int64_t left = room(r);
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
  std::int64_t tokens = 0, left = 0;
  FinishReason finish = FinishReason::Cancelled;
  double first = 0;
  Channel channel = Channel::Content;
  const Clock clock;
  SequenceId id = 0;
  try {
    Request next = request();
    left = room(next);
    id = engine_.submit(std::move(next), [&](const Token& token) {
      if (token.finish == FinishReason::Failed) throw ModelError(token.error);
      if (token.finish) finish = *token.finish;
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
  const std::string end = finish == FinishReason::Length ? ", " + cut_text(tokens, left, engine_.model().plan)
                          : CtrlC::count() > 0           ? ", stopped"
                                                         : "";
  report(arguments_, "[%lld tokens, first after %.0f ms, %.1f tok/s%s]\n", static_cast<long long>(tokens), first * 1e3,
         seconds > 0 && tokens > 1 ? static_cast<double>(tokens - 1) / seconds : 0.0, end.c_str());
}

/// A command of a person, who may have misspelt one. False: the message is for the model. What comes through a pipe is,
/// but for /clear and /exit.
bool is_answered_here(const std::string& message) {
  const std::string word = command_word(message);
  if (word.empty()) return false;
  std::vector<std::string> names;
  for (const ChatCommand& c : kChatCommands) names.emplace_back(c.name);
  if (word != "/help") put(stderr, "mortar chat: unknown command " + word + did_you_mean(word, names) + "\n");
  put(stderr, chat_commands());
  return true;
}

int run(const Arguments& arguments) {
  check_generation_options(arguments);
  const bool remembers = !arguments.flag("--no-history");
  Chat chat(arguments);
  const bool person = isatty(STDIN_FILENO) != 0;
  const CtrlC counted(1);  // a second one ends the program
  const auto lines = make_line_reader(
      {.prompts = !arguments.quiet(), .history_file = remembers ? state_file("chat_history") : std::string()});
  if (person) report(arguments, "/help lists the commands. A line that ends with \\ goes on in the next one.\n");
  bool failed = false;
  for (;;) {
    CtrlC::reset();
    const auto message = read_message(*lines);
    if (CtrlC::count() > 0) throw Interrupted();
    if (!message || *message == "/exit") return failed && !person ? kFailed : kDone;
    if (*message == "/clear") {
      chat.clear();
      continue;
    }
    if (message->empty() || (person && is_answered_here(*message))) continue;
    try {
      chat.answer(*message);
    } catch (const RequestError& error) {
      set_closing(nullptr);
      std::fprintf(stderr, "mortar chat: %s\n", error.what());
      failed = true;
    }
  }
}

const Option kOptions[] = {
    {"--no-history", nullptr, "what is typed is not kept in ~/.local/state/mortar/chat_history (in $XDG_STATE_HOME)"},
};
const Registration kRegistration({"chat", "MODEL", "a conversation on the terminal", kOptions, OptionSet::Generation,
                                  run});

}  // namespace THIS_FILE
}  // namespace mortar::cli

// Answers of every route: what a stream's reader joins is what the whole answer says, however the tokens come.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <cstdint>
#include <map>
#include <nlohmann/json.hpp>
#include <random>
#include <string>
#include <vector>

#include "mortar/server/server_test.hpp"
#include "server/metrics.hpp"
#include "server/run.hpp"
#include "server/writers.hpp"

namespace mortar::server {
namespace THIS_FILE {

using nlohmann::json;
using MakeWriter = std::unique_ptr<AnswerWriter> (*)(WriterOptions);

struct Scripted {
  std::string text;
  FinishReason finish = FinishReason::Stop;
  bool stream = false;
  std::int64_t choices = 1;
  answer::MachineOptions machine{.calls = answer::CallFormat::Json};
};

/// Gives the tokens of `text` to a run, `seed` says how many come at a time, and returns what was sent.
std::shared_ptr<RecordedReply> answered(const Scripted& s, MakeWriter make, unsigned seed) {
  static ServerMetrics metrics("test", MetricNames::Mortar);
  const Tokenizer& tokenizer = plain_text().tokenizer();
  auto reply = std::make_shared<RecordedReply>();
  Generation g;
  g.stream = s.stream;
  g.include_usage = s.stream;
  g.choices = s.choices;
  g.logprobs = 1;
  g.return_ids = true;
  WriterOptions options(reply, tokenizer, "test", g);
  options.prompt_ids = {1, 2, 3};
  options.prompt_tokens = 3;
  std::vector<RunPrompt> prompts(1);
  prompts[0].request.ids = {1, 2, 3};
  prompts[0].request.choices = s.choices;
  prompts[0].machine = s.machine;
  const auto run = std::make_shared<Run>(tokenizer, std::move(prompts), make(std::move(options)), metrics);
  run->begin();
  const std::vector<TokenId> ids = tokenizer.encode(s.text);
  std::mt19937 random(seed);
  for (std::size_t i = 0; i < ids.size(); ++i) {
    for (std::int64_t choice = 0; choice < s.choices; ++choice) {
      Token token;
      token.id = ids[i];
      token.choice = choice;
      token.chosen = TokenLogprob{ids[i], -0.5F};
      token.top = {{ids[i], -0.5F}, {0, -1.0F}};
      token.cached_tokens = i == 0 ? 2 : 0;
      if (i + 1 == ids.size()) token.finish = s.finish;
      run->take({run, 0, token, std::chrono::steady_clock::now()});
    }
    if (seed == 0 || random() % 3 == 0) run->flush();
  }
  run->flush();
  EXPECT_EQ(reply->answers, 1);
  EXPECT_EQ(reply->streams, s.stream);
  return reply;
}

const std::string kCalls =
    "<tool_call>\n{\"name\": \"f\", \"arguments\": {\"a\": \"\xC3\xA9\"}}\n</tool_call>\n<tool_call>\n{\"name\": "
    "\"g\"}\n</tool_call>";
const std::vector<Scripted> kScripts = {
    {"Hello \xF0\x9F\x98\x80 world\n<|im_end|>"},
    {"<think>\nhm\n</think>\n\nYes<|im_end|>"},
    {"<think>\nhm\n</think>\n\nLet me see.\n\n" + kCalls + "<|im_end|>"},
    {kCalls + "<|im_end|>"},
    {"<tool_call>\n{\"name\": \"f\", \"arguments\": {\"a\": 1", FinishReason::Length},
    {"<think>\nhm", FinishReason::Length},
    {"too lo", FinishReason::Length},
    {"Yes STOP no<|im_end|>", FinishReason::Stop, false, 1, {.stop = {"STOP"}}},
    {"<|im_end|>"},
};

/// As the openai package joins the chunks of a choice.
json joined_chat(const RecordedReply& reply, int choice) {
  json out = {{"content", ""},
              {"reasoning", ""},
              {"tool_calls", json::array()},
              {"logprobs", json::array()},
              {"token_ids", json::array()}};
  bool done = false;
  for (const auto& event : reply.events) {
    EXPECT_FALSE(done);
    if (event.data == "[DONE]") {
      done = true;
      continue;
    }
    const json chunk = json::parse(event.data);
    EXPECT_EQ(chunk["object"], "chat.completion.chunk");
    if (chunk["choices"].empty()) out["usage"] = chunk["usage"];
    if (chunk.contains("timings")) out["timings"] = true;
    for (const json& c : chunk["choices"]) {
      if (c["index"] != choice) continue;
      EXPECT_FALSE(out.contains("finish_reason"));
      const json& delta = c["delta"];
      if (delta.contains("role")) out["role"] = delta["role"];
      for (const char* text : {"content", "reasoning"})
        if (delta.contains(text)) out[text] = out[text].get<std::string>() + delta[text].get<std::string>();
      EXPECT_EQ(delta.value("reasoning", ""), delta.value("reasoning_content", ""));
      for (const json& call : delta.value("tool_calls", json::array())) {
        const std::size_t index = call["index"];
        if (call.contains("id")) {
          EXPECT_EQ(index, out["tool_calls"].size());
          out["tool_calls"].push_back({{"name", call["function"]["name"]}, {"arguments", ""}});
        }
        json& arguments = out["tool_calls"].at(index)["arguments"];
        arguments = arguments.get<std::string>() + call["function"]["arguments"].get<std::string>();
      }
      if (!c["logprobs"].is_null())
        for (const json& l : c["logprobs"]["content"]) out["logprobs"].push_back(l);
      for (const json& id : c.value("token_ids", json::array())) out["token_ids"].push_back(id);
      if (!c["finish_reason"].is_null()) out["finish_reason"] = c["finish_reason"];
    }
  }
  EXPECT_TRUE(done);
  return out;
}

json whole_chat(const RecordedReply& reply, std::size_t choice) {
  const json body = json::parse(reply.body);
  const json& c = body["choices"].at(choice);
  const json& message = c["message"];
  json out = {{"content", message["content"].is_null() ? "" : message["content"]},
              {"reasoning", message.value("reasoning", "")},
              {"tool_calls", json::array()},
              {"logprobs", c["logprobs"]["content"]},
              {"token_ids", c["token_ids"]},
              {"role", message["role"]},
              {"finish_reason", c["finish_reason"]},
              {"usage", body["usage"]},
              {"timings", body.contains("timings")}};
  for (const json& call : message.value("tool_calls", json::array())) {
    EXPECT_EQ(call["type"], "function");
    out["tool_calls"].push_back({{"name", call["function"]["name"]}, {"arguments", call["function"]["arguments"]}});
  }
  return out;
}

TEST(MortarServerWriters, AChatsStreamIsItsWholeAnswer) {
  for (Scripted script : kScripts) {
    const json whole = whole_chat(*answered(script, chat_writer, 0), 0);
    EXPECT_EQ(whole["usage"]["prompt_tokens_details"]["cached_tokens"], 2);
    script.stream = true;
    for (unsigned seed = 0; seed < 8; ++seed)
      EXPECT_EQ(joined_chat(*answered(script, chat_writer, seed), 0), whole) << script.text;
  }
}

TEST(MortarServerWriters, AChatsFields) {
  const json calls = whole_chat(*answered(kScripts[2], chat_writer, 0), 0);
  EXPECT_EQ(calls["finish_reason"], "tool_calls");
  EXPECT_EQ(calls["content"], "Let me see.");
  EXPECT_EQ(calls["reasoning"], "hm");
  EXPECT_EQ(calls["tool_calls"],
            json::parse(R"([{"name": "f", "arguments": "{\"a\": \"é\"}"}, {"name": "g", "arguments": "{}"}])"));
  EXPECT_GT(calls["usage"]["completion_tokens_details"]["reasoning_tokens"], 0);
  std::string listed;
  for (const json& l : calls["logprobs"]) {
    listed += l["token"];
    EXPECT_EQ(l["bytes"].size(), l["token"].get<std::string>().size());
    EXPECT_EQ(l["top_logprobs"].size(), 1);
  }
  EXPECT_EQ(listed, "\n\nLet me see.");  // no token of the thinking or of the calls
  EXPECT_EQ(whole_chat(*answered(kScripts[4], chat_writer, 0), 0)["finish_reason"], "length");
  const json stopped = whole_chat(*answered(kScripts[7], chat_writer, 0), 0);
  EXPECT_EQ(stopped["content"], "Yes ");
  EXPECT_EQ(stopped["finish_reason"], "stop");
}

TEST(MortarServerWriters, ChoicesAreKeptApart) {
  Scripted script = kScripts[2];
  script.choices = 3;
  const auto whole = answered(script, chat_writer, 0);
  script.stream = true;
  const auto stream = answered(script, chat_writer, 5);
  for (int i = 0; i < 3; ++i) EXPECT_EQ(joined_chat(*stream, i), whole_chat(*whole, static_cast<std::size_t>(i)));
}

TEST(MortarServerWriters, Completions) {
  for (Scripted script : kScripts) {
    script.machine = {.thinking = answer::Thinking::Ended, .stop = script.machine.stop};
    const json whole = json::parse(answered(script, completion_writer, 0)->body);
    script.stream = true;
    for (unsigned seed = 0; seed < 4; ++seed) {
      const auto stream = answered(script, completion_writer, seed);
      std::string text;
      json tokens = json::array(), finish;
      for (const auto& event : stream->events) {
        if (event.data == "[DONE]") continue;
        const json chunk = json::parse(event.data);
        for (const json& c : chunk["choices"]) {
          text += c["text"];
          for (const json& t : c["logprobs"]["tokens"]) tokens.push_back(t);
          if (!c["finish_reason"].is_null()) finish = c["finish_reason"];
        }
      }
      EXPECT_EQ(text, whole["choices"][0]["text"].get<std::string>()) << script.text;
      EXPECT_EQ(tokens, whole["choices"][0]["logprobs"]["tokens"]);
      EXPECT_EQ(finish, whole["choices"][0]["finish_reason"]);
    }
  }
  Scripted script{"<think>a</think>b" + kCalls};
  script.machine = {.thinking = answer::Thinking::Ended};
  EXPECT_EQ(json::parse(answered(script, completion_writer, 0)->body)["choices"][0]["text"], script.text);
}

/// The output as the events build it; checks their order.
json joined_response(const RecordedReply& reply) {
  json items = json::array();
  std::int64_t sequence = 0;
  bool open = false;
  json last;
  for (const auto& event : reply.events) {
    const json e = json::parse(event.data);
    EXPECT_EQ(e["type"], event.name);
    EXPECT_EQ(e["sequence_number"], sequence++);
    const std::string type = e["type"];
    if (e.contains("output_index")) {
      EXPECT_EQ(e["output_index"].get<std::size_t>() + (type == "response.output_item.added" ? 0 : 1), items.size());
    }
    if (type == "response.output_item.added") {
      EXPECT_FALSE(open);
      open = true;
      items.push_back(e["item"]);
    } else if (type == "response.content_part.added") {
      items.back()["content"].push_back(e["part"]);
    } else if (type == "response.output_text.delta" || type == "response.reasoning_text.delta") {
      json& text = items.back()["content"].at(0)["text"];
      text = text.get<std::string>() + e["delta"].get<std::string>();
    } else if (type == "response.function_call_arguments.delta") {
      items.back()["arguments"] = items.back()["arguments"].get<std::string>() + e["delta"].get<std::string>();
    } else if (type == "response.output_item.done") {
      EXPECT_TRUE(open);
      open = false;
      items.back()["status"] = e["item"]["status"];
      EXPECT_EQ(items.back(), e["item"]);
    }
    last = e;
  }
  EXPECT_EQ(last["response"]["output"], items);
  return last["response"];
}

/// Without what differs between two answers.
json without_ids(json response) {
  for (const char* name : {"id", "created_at"}) response.erase(name);
  for (json& item : response["output"]) item.erase("id"), item.erase("call_id");
  return response;
}

TEST(MortarServerWriters, Responses) {
  for (Scripted script : kScripts) {
    const json whole = json::parse(answered(script, response_writer, 0)->body);
    EXPECT_EQ(whole["status"], script.finish == FinishReason::Length ? "incomplete" : "completed");
    script.stream = true;
    for (unsigned seed = 0; seed < 4; ++seed)
      EXPECT_EQ(without_ids(joined_response(*answered(script, response_writer, seed))), without_ids(whole))
          << script.text;
  }
  const json r = json::parse(answered(kScripts[2], response_writer, 0)->body);
  ASSERT_EQ(r["output"].size(), 4);
  EXPECT_EQ(r["output"][0]["content"][0]["text"], "hm");
  EXPECT_EQ(r["output"][1]["content"][0]["text"], "Let me see.");
  EXPECT_EQ(r["output"][2]["name"], "f");
  EXPECT_EQ(r["output"][3]["arguments"], "{}");
}

TEST(MortarServerWriters, AnthropicMessages) {
  for (Scripted script : kScripts) {
    const json whole = json::parse(answered(script, message_writer, 0)->body);
    script.stream = true;
    for (unsigned seed = 0; seed < 4; ++seed) {
      json blocks = json::array(), message;
      std::string partial;
      bool open = false;
      const auto stream = answered(script, message_writer, seed);
      for (const auto& event : stream->events) {
        const json e = json::parse(event.data);
        EXPECT_EQ(e["type"], event.name);
        if (event.name == "message_start") message = e["message"];
        if (event.name == "content_block_start") {
          EXPECT_FALSE(open);
          open = true;
          partial.clear();
          EXPECT_EQ(e["index"], blocks.size());
          blocks.push_back(e["content_block"]);
        }
        if (event.name == "content_block_delta") {
          EXPECT_TRUE(open);
          for (const char* text : {"text", "thinking"})
            if (e["delta"].contains(text))
              blocks.back()[text] = blocks.back()[text].get<std::string>() + e["delta"][text].get<std::string>();
          partial += e["delta"].value("partial_json", "");
        }
        if (event.name == "content_block_stop") {
          open = false;
          const json input = json::parse(partial, nullptr, false);
          if (blocks.back()["type"] == "tool_use" && !input.is_discarded()) blocks.back()["input"] = input;
        }
        if (event.name == "message_delta") message.update(e["delta"]), message["usage"] = e["usage"];
      }
      message["content"] = blocks;
      json expected = whole;
      for (json* m : {&message, &expected}) {
        m->erase("id");
        for (json& block : (*m)["content"]) block.erase("id");
      }
      EXPECT_EQ(message, expected) << script.text;
    }
  }
  const json r = json::parse(answered(kScripts[2], message_writer, 0)->body);
  EXPECT_EQ(r["stop_reason"], "tool_use");
  EXPECT_EQ(r["content"][2]["input"], json::parse(R"({"a": "é"})"));
  EXPECT_EQ(r["usage"]["cache_read_input_tokens"], 2);
  EXPECT_EQ(r["usage"]["input_tokens"], 1);
  EXPECT_EQ(json::parse(answered(kScripts[7], message_writer, 0)->body)["stop_sequence"], "STOP");
}

TEST(MortarServerWriters, Failures) {
  Scripted script{"abc"};
  script.finish = FinishReason::Failed;
  const auto plain = answered(script, chat_writer, 0);
  EXPECT_EQ(plain->status, 500);
  EXPECT_EQ(json::parse(plain->body)["error"]["type"], "server_error");
  script.stream = true;
  const auto stream = answered(script, chat_writer, 0);
  ASSERT_GE(stream->events.size(), 2);
  EXPECT_TRUE(json::parse(stream->events[stream->events.size() - 2].data).contains("error"));
  EXPECT_EQ(stream->events.back().data, "[DONE]");
  const auto message = answered(script, message_writer, 0);
  EXPECT_EQ(message->events.back().name, "error");
  EXPECT_EQ(json::parse(message->events.back().data)["error"]["type"], "api_error");
  const auto response = answered(script, response_writer, 0);
  EXPECT_EQ(response->events.back().name, "response.failed");
}

}  // namespace THIS_FILE
}  // namespace mortar::server

// Chat templates against what transformers' apply_chat_template renders from the same Jinja texts (kept whole where recognition needs it).
#include "../tools/chat.h"

#include <doctest/doctest.h>

using locus::ChatTemplate;

namespace {

std::string render(const ChatTemplate::Pieces& pieces) {
    std::string out;
    for (const ChatTemplate::Piece& p : pieces)
        out += p.kind == ChatTemplate::Kind::BOS ? "<s>" : p.kind == ChatTemplate::Kind::EOS ? "</s>" : p.text;
    return out;
}

const std::string USER = " Hi <|im_end|> there ";
const std::optional<std::string> NONE, SYSTEM = " Be brief. ";

const char* SMOLLM2 =
    "{% for message in messages %}{% if loop.first and messages[0]['role'] != 'system' %}{{ '<|im_start|>system\n"
    "You are a helpful AI assistant named SmolLM, trained by Hugging Face<|im_end|>\n' }}{% endif %}{{'<|im_start|>' + message['role'] + "
    "'\n'"
    " + message['content'] + '<|im_end|>' + '\n'}}{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}";
const char* LLAMA2 = "{{ bos_token + '[INST] ' + content.strip() + ' [/INST]' }} ... '<<SYS>>\\n' + system_message + '\\n<</SYS>>\\n\\n'";
const char* LLAMA3 = "{% set content = '<|start_header_id|>' + message['role'] + '<|end_header_id|>\n\n'+ message['content'] | trim + "
                     "'<|eot_id|>' %}{% set content = bos_token + content %}";
const char* GEMMA2 = "{{ bos_token }}{{ raise_exception('System role not supported') }}{{ '<start_of_turn>' + role + '\n' + "
                     "message['content'] | trim + '<end_of_turn>\n' }}";
const char* GEMMA3 = "{{ bos_token }}{%- set first_user_prefix = messages[0]['content'] + '\n\n' -%}{{ '<start_of_turn>' + role }}";
const char* ZEPHYR = "{{ '<|user|>\n' + message['content'] + eos_token }}{{ '<|assistant|>' }}";

} // namespace

TEST_CASE("chat: ChatML") {
    const ChatTemplate t(SMOLLM2);
    CHECK(render(t.turn(USER, true, NONE)) ==
          "<|im_start|>system\nYou are a helpful AI assistant named SmolLM, trained by Hugging Face<|im_end|>\n"
          "<|im_start|>user\n Hi <|im_end|> there <|im_end|>\n<|im_start|>assistant\n");
    CHECK(render(t.turn(USER, true, SYSTEM)) ==
          "<|im_start|>system\n Be brief. <|im_end|>\n<|im_start|>user\n Hi <|im_end|> there <|im_end|>\n<|im_start|>assistant\n");
    CHECK(render(t.turn("Why?", false, SYSTEM)) == "\n<|im_start|>user\nWhy?<|im_end|>\n<|im_start|>assistant\n");
    CHECK(t.closing().text == "<|im_end|>");
    // a line break written as \n; no default system message where the template has none
    CHECK(render(ChatTemplate("'<|im_start|>system\\nYou are Q.<|im_end|>\\n'").turn("Hi", true, NONE))
              .find("system\nYou are Q.<|im_end|>\n") != std::string::npos);
    CHECK(
        render(ChatTemplate("'<|im_start|>' + role").turn("Hi", true, NONE)) == "<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\n");
}

TEST_CASE("chat: Llama 2") {
    const ChatTemplate t(LLAMA2);
    CHECK(render(t.turn(USER, true, NONE)) == "<s>[INST] Hi <|im_end|> there [/INST]");
    CHECK(render(t.turn(USER, true, SYSTEM)) == "<s>[INST] <<SYS>>\n Be brief. \n<</SYS>>\n\n Hi <|im_end|> there [/INST]");
    CHECK(render(t.turn("Why?", false, SYSTEM)) == "<s>[INST] Why? [/INST]");
    CHECK(t.closing().kind == ChatTemplate::Kind::EOS);
}

TEST_CASE("chat: Llama 3") {
    const ChatTemplate t(LLAMA3);
    const std::string answer = "<|start_header_id|>assistant<|end_header_id|>\n\n";
    CHECK(render(t.turn(USER, true, NONE)) == "<s><|start_header_id|>user<|end_header_id|>\n\nHi <|im_end|> there<|eot_id|>" + answer);
    CHECK(render(t.turn(USER, true, SYSTEM)) == "<s><|start_header_id|>system<|end_header_id|>\n\nBe brief.<|eot_id|>"
                                                "<|start_header_id|>user<|end_header_id|>\n\nHi <|im_end|> there<|eot_id|>" +
                                                    answer);
    CHECK(render(t.turn("Why?", false, SYSTEM)) == "<|start_header_id|>user<|end_header_id|>\n\nWhy?<|eot_id|>" + answer);
    const ChatTemplate dated(std::string(LLAMA3) + "Cutting Knowledge Date: December 2023");
    CHECK(render(dated.turn("Hi", true, NONE)) ==
          "<s><|start_header_id|>system<|end_header_id|>\n\nCutting Knowledge Date: December 2023\nToday Date: 26 Jul 2024\n\n<|eot_id|>"
          "<|start_header_id|>user<|end_header_id|>\n\nHi<|eot_id|>" +
              answer);
}

TEST_CASE("chat: Gemma") {
    const ChatTemplate t(GEMMA2);
    CHECK(render(t.turn(USER, true, NONE)) == "<s><start_of_turn>user\nHi <|im_end|> there<end_of_turn>\n<start_of_turn>model\n");
    CHECK(render(t.turn("Why?", false, NONE)) == "\n<start_of_turn>user\nWhy?<end_of_turn>\n<start_of_turn>model\n");
    CHECK_THROWS_WITH_AS(t.turn(USER, true, SYSTEM), "this model's chat template takes no system message", locus::Error);
    CHECK(render(ChatTemplate(GEMMA3).turn(USER, true, SYSTEM)) ==
          "<s><start_of_turn>user\n Be brief. \n\nHi <|im_end|> there<end_of_turn>\n<start_of_turn>model\n");
}

TEST_CASE("chat: Zephyr") {
    const ChatTemplate t(ZEPHYR);
    CHECK(render(t.turn(USER, true, NONE)) == "<|user|>\n Hi <|im_end|> there </s>\n<|assistant|>\n");
    CHECK(render(t.turn(USER, true, SYSTEM)) == "<|system|>\n Be brief. </s>\n<|user|>\n Hi <|im_end|> there </s>\n<|assistant|>\n");
    CHECK(render(t.turn("Why?", false, SYSTEM)) == "\n<|user|>\nWhy?</s>\n<|assistant|>\n");
}

TEST_CASE("chat: an unknown template is named") {
    CHECK_THROWS_WITH_AS(ChatTemplate("{{ '<|prompt|>' + x }}"),
        "unknown chat template (known: ChatML, Llama 2, Llama 3, Gemma, Zephyr): {{ '<|prompt|>' + x }}", locus::Error);
    CHECK_THROWS_WITH_AS(ChatTemplate(""), "the checkpoint has no chat template", locus::Error);
}

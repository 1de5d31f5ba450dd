#include "chat/chat.h"

/* Templates for models that bring none, by the names people know them. Written from the published
 * formats. */
static const struct {
    const char *name, *text;
} builtins[] = {
    {"chatml", "{%- for message in messages %}{{ '<|im_start|>' + message.role + '\\n' + "
               "message.content + '<|im_end|>\\n' }}{% endfor %}"
               "{%- if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif %}"},
    {"llama2", "{%- set ns = namespace(system='') %}{%- for message in messages %}"
               "{%- if message.role == 'system' %}{%- set ns.system = '<<SYS>>\\n' + "
               "message.content + '\\n<</SYS>>\\n\\n' %}"
               "{%- elif message.role == 'user' %}{{ bos_token + '[INST] ' + ns.system + "
               "message.content + ' [/INST]' }}"
               "{%- set ns.system = '' %}"
               "{%- else %}{{ ' ' + message.content + ' ' + eos_token }}{%- endif %}{%- endfor %}"},
    {"llama3", "{{- bos_token }}{%- for message in messages %}{{ '<|start_header_id|>' + "
               "message.role + '<|end_header_id|>\\n\\n' "
               "+ message.content | trim + '<|eot_id|>' }}{%- endfor %}"
               "{%- if add_generation_prompt %}{{ "
               "'<|start_header_id|>assistant<|end_header_id|>\\n\\n' }}{%- endif %}"},
    {"gemma", "{{- bos_token }}{%- set ns = namespace(system='') %}{%- for message in messages %}"
              "{%- if message.role == 'system' %}{%- set ns.system = message.content | trim + "
              "'\\n\\n' %}{%- else %}"
              "{{ '<start_of_turn>' + ('model' if message.role == 'assistant' else 'user') + '\\n' "
              "+ ns.system + message.content | "
              "trim + '<end_of_turn>\\n' }}{%- set ns.system = '' %}{%- endif %}{%- endfor %}"
              "{%- if add_generation_prompt %}{{ '<start_of_turn>model\\n' }}{%- endif %}"},
    {"phi3", "{%- for message in messages %}{{ '<|' + message.role + '|>\\n' + message.content + "
             "'<|end|>\\n' }}{%- endfor %}"
             "{%- if add_generation_prompt %}{{ '<|assistant|>\\n' }}{%- endif %}"},
    {"zephyr", "{%- for message in messages %}{{ '<|' + message.role + '|>\\n' + message.content + "
               "eos_token + '\\n' }}{%- endfor %}"
               "{%- if add_generation_prompt %}{{ '<|assistant|>\\n' }}{%- endif %}"},
    {"vicuna",
     "{%- for message in messages %}{%- if message.role == 'system' %}{{ message.content + "
     "'\\n\\n' }}"
     "{%- elif message.role == 'user' %}{{ 'USER: ' + message.content + '\\n' }}"
     "{%- else %}{{ 'ASSISTANT: ' + message.content + eos_token + '\\n' }}{%- endif %}{%- endfor %}"
     "{%- if add_generation_prompt %}{{ 'ASSISTANT:' }}{%- endif %}"},
};

const char *chat_builtin_names(void) {
    return "chatml, llama2, llama3, gemma, phi3, zephyr, vicuna";
}

Str chat_builtin_find(Str name) {
    for (size_t i = 0; i < sizeof builtins / sizeof *builtins; i++)
        if (str_eqc(name, builtins[i].name)) return str_c(builtins[i].text);
    return STR_NONE;
}

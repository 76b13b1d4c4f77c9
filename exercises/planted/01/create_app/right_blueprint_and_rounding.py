import flask


def tokens_per_second(tokens, seconds):
    return round(tokens / seconds, 2) if seconds else None


def create_app(engine):
    routes = flask.Blueprint("routes", __name__)

    def answer():
        asked = flask.request.json
        ids, prompt, seconds = engine.generate(
            asked["prompt_ids"], asked["max_new_tokens"]
        )
        return flask.jsonify(
            ids=ids,
            prompt_tokens=prompt,
            seconds=seconds,
            new_tokens=len(ids),
            tokens_per_second=tokens_per_second(len(ids), seconds),
            model="scripted",
        )

    routes.add_url_rule("/generate", view_func=answer, methods=["POST"])
    application = flask.Flask("another")
    application.register_blueprint(routes)
    return application

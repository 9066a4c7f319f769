import com.google.re2j.Pattern;
import com.google.re2j.PatternSyntaxException;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;

/**
 * What re2j, which Kafka uses, says about patterns: reads lines of a pattern and names, with tabs between, and prints
 * the names that match, or the word "refused". tests/data/re2j-1.8/verdicts.txt was made with it.
 */
public class Re2Verdicts {
    public static void main(String[] arguments) throws Exception {
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        PrintStream out = new PrintStream(System.out, false, StandardCharsets.UTF_8);
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            String[] fields = line.split("\t", -1);
            StringBuilder answer = new StringBuilder(fields[0]);
            try {
                Pattern pattern = Pattern.compile(fields[0]);
                for (int i = 1; i < fields.length; i++) {
                    if (pattern.matcher(fields[i]).matches()) {
                        answer.append('\t').append(fields[i]);
                    }
                }
            } catch (PatternSyntaxException exception) {
                answer.append("\trefused");
            }
            out.println(answer);
        }
        out.flush();
    }
}
